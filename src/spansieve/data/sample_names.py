"""What the names of the sample corpus are made of: lists of parts, and patterns that join them."""

from __future__ import annotations


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))


# Each culture has its own first and last names, so that most people are called as people are. Women and men take turns
# among the first names.
FIRST_NAMES = {
    "english": "Alice, Walter, Harriet, Edmund, Nora, Clive, Beatrix, Gareth, Imogen, Rufus, Tamsin, Oswald",
    "irish": "Aoife, Cormac, Niamh, Declan, Siobhan, Fergus, Orla, Padraig",
    "nordic": "Astrid, Lars, Ingrid, Sven, Solveig, Mikkel, Freja, Eirik, Aino, Torsten",
    "german": "Anneliese, Jürgen, Lotte, Matthias, Ulrike, Konrad, Heidi, Friedrich",
    "french": "Amélie, Bastien, Colette, Étienne, Margaux, Thibault, Odile, Lucien",
    "iberian": "Marta, Joaquín, Inês, Rodrigo, Pilar, Tomás, Beatriz, Álvaro, Lucía, Duarte",
    "italian": "Chiara, Matteo, Ginevra, Paolo, Ornella, Dario, Fiorella, Enzo",
    "slavic": "Katarzyna, Bogdan, Milena, Stanislav, Zofia, Dragan, Ludmila, Piotr, Vesna, Oleksandr",
    "greek": "Eleni, Stavros, Kalliope, Yannis, Despina, Nikos, Thalia, Kostas",
    "turkish": "Elif, Kerem, Defne, Orhan, Zeynep, Emre, Ayla, Tarık",
    "arabic": "Layla, Khalid, Yasmin, Tariq, Noor, Samir, Huda, Idris, Amal, Karim",
    "indian": "Ananya, Rohan, Lakshmi, Arjun, Meera, Sanjay, Priya, Vikram, Kavita, Harish",
    "african": "Amara, Kwame, Ngozi, Sipho, Zanele, Chidi, Wanjiru, Tendai, Abeni, Kofi, Makena, Desta",
    "vietnamese": "Linh, Minh, Thuy, Quang, Lan, Duc, Mai, Tuan",
    "japanese": "Haruka, Kenji, Sakura, Hiroshi, Yumi, Daichi, Natsuko, Ren",
    "pacific": "Leilani, Tane, Moana, Sione, Anahera, Tevita, Mele, Kalani",
}
LAST_NAMES = {
    "english": "Tindall, Ashworth, Pemberton, Crowe, Whitlock, Barraclough, Fenn, Hathersage, Mottram, Lovell, Penrose",
    "irish": "Brannigan, O'Dowd, Gallagher, Tierney, MacCabe, Doherty, Quinlan, Rafferty",
    "nordic": "Lindqvist, Halvorsen, Bergström, Nygaard, Virtanen, Dahl, Ravnholt, Eklund, Solberg, Korhonen",
    "german": "Baumgartner, Vogelsang, Kessler, Lindemann, Oberhauser, Brandt, Zimmerling, Hartwig",
    "french": "Delacroix, Moreau, Bellefontaine, Rousselet, Garnier, Lachance, Thévenot, Marchand",
    "iberian": "Tavares, Ortega, Figueira, Villanueva, Quintero, Salgado, Esteves, Carballo, Ibarra, Pacheco",
    "italian": "Bellandi, Ferraro, Castelnuovo, Ricciardi, Montanari, Sorrentino, Zanetti, Lombardo",
    "slavic": "Kowalczyk, Novotny, Petrov, Horvat, Wojcik, Bondarenko, Jankovic, Zelenko, Dvorak, Sokol",
    "greek": "Papadakis, Economou, Kazan, Vlachos, Stephanou, Karras, Mavros, Galanis",
    "turkish": "Yildiz, Demirci, Aksoy, Karaca, Öztürk, Bulut, Tekin, Polat",
    "arabic": "Haddad, Mansour, Benali, Khoury, Rahmani, Farouk, Nasser, Zaki, Saleh, Bakri",
    "indian": "Banerjee, Iyer, Deshpande, Chaudhary, Mukherjee, Rao, Pillai, Bhatt, Kulkarni, Nair",
    "african": "Okafor, Mensah, Dlamini, Adeyemi, Kamau, Moyo, Achebe, Tesfaye, Nkosi, Diallo, Owusu, Mwangi",
    "vietnamese": "Nguyen, Tran, Pham, Hoang, Phan, Vo, Dang, Bui",
    "japanese": "Nakamura, Fujimoto, Hayashi, Okada, Morishita, Takeda, Ishikawa, Yoshida",
    "pacific": "Kahale, Tuimoala, Ngata, Fonoti, Kealoha, Rangihuna, Taufa, Paki",
}
# Family names come first here.
FAMILY_FIRST = {
    "chinese": (
        "Chen, Zhao, Liang, Xu, Fang, Luo, Deng, Qiu, Shen, Pan",
        "Meilin, Haoran, Jiayi, Weiming, Ruolan, Zihan, Xiuying, Bohai",
    ),
    "korean": ("Kim, Seo, Han, Yoon, Kang, Shin, Moon, Baek", "Ji-woo, Min-jun, Seo-yeon, Do-hyun, Ha-eun, Tae-yang"),
}
CULTURES = tuple(FIRST_NAMES)

PEOPLE = {
    **{f"{culture}_first": _listed(names) for culture, names in FIRST_NAMES.items()},
    **{f"{culture}_last": _listed(names) for culture, names in LAST_NAMES.items()},
    **{f"{culture}_last": _listed(names[0]) for culture, names in FAMILY_FIRST.items()},
    **{f"{culture}_first": _listed(names[1]) for culture, names in FAMILY_FIRST.items()},
    # First names that are words of the language, months among them.
    "word_first": _listed("May, Will, Rose, Hope, Mark, June, Penny, Hunter, April, Grace, Frank, Summer, Bill"),
    "initial": _listed("A., B., C., D., E., F., G., H., J., K., L., M., N., O., P., R., S., T., V., W."),
}

PLACES = {
    # A person, a place, or a company: only the sentence decides.
    "anything": _listed(
        "Jordan, Washington, Paris, Florence, Lincoln, Sydney, Austin, Houston, Chelsea, Victoria, Hamilton, Madison, "
        "Georgia, Charlotte, Kingston, Wellington, Nelson, Lancaster, Chester, Preston, Milan, Valencia, Santiago, "
        "Sofia, Adelaide, Savannah, Carson, Marlow, Halden, Trent, Clifton, Camden, Logan, Raleigh, Everett"
    ),
    "town": _listed(
        "Lisbon, Nairobi, Oslo, Kyoto, Lagos, Tbilisi, Montevideo, Tallinn, Bergen, Accra, Hanoi, Ljubljana, Cusco, "
        "Riga, Mombasa, Trieste, Aleppo, Busan, Kraków, Medellín, Zanzibar, Bilbao, Jaipur, Antwerp, Windhoek, Porto, "
        "Reykjavik, Samarkand, Izmir, Quito, Osaka, Dakar, Bruges, Salzburg, Kumasi, Galway, Pune, Apia, Odense"
    ),
    "stem": _listed(
        "Kel, Har, Tam, Bram, Ash, Wex, Thorn, Pel, Sten, Mar, Win, Dun, Fal, Hoo, Cros, Brack, Lin, Oster, Quil, Ber"
    ),
    "ending": _listed("mouth, borough, ford, wick, stead, haven, by, dale, combe, bridge, minster, holm"),
    "before_town": _listed("Port, Upper, New, North, Saint, Fort, Little, East, Old, Lower, Great, West"),
    "saint": _listed("Aurelio, Casilda, Benito, Marina, Telmo, Ramiro, Amaro, Rosalía, Lázaro, Cirilo, Inés, Fermín"),
    "country": _listed(
        "Norway, Kenya, New Zealand, Portugal, Vietnam, Costa Rica, Ghana, Japan, Sri Lanka, Poland, Brazil, Morocco, "
        "Papua New Guinea, Chile, South Korea, Turkey, Finland, India, Ivory Coast, Greece, Mexico, Senegal, Nepal, "
        "Trinidad and Tobago, Iceland, Uruguay, Burkina Faso, Estonia, Peru, Samoa, South Africa, Canada, Slovenia, "
        "Botswana, Ireland, Mongolia, El Salvador, Denmark, Oman, Bosnia and Herzegovina, Ecuador, Malta, Tunisia, Laos"
    ),
    "wild": _listed(
        "Orrin, Tavel, Ashgar, Mirelle, Skarn, Ume, Tessaly, Brume, Koruna, Vantaa, Isolde, Narwhal, Sable, Amberley, "
        "Thirsk, Lomond, Cinder, Heron, Morna, Calder, Yarrow, Selkie, Raven, Tamarind"
    ),
    "tree": _listed("Chestnut, Linden, Willow, Juniper, Hazel, Alder, Mulberry, Rowan, Cedar, Walnut, Almond, Elm"),
}

THINGS = {
    "brand": _listed(
        "Zephyra, Quillo, Brightwater, Nordvik, Kestrel, Lantern, Otter, Marmalade, Velora, Tuesday, Pebble, Ostrava, "
        "Finch, Ambrosia, Solvane, Cobalt, Umbrella, Trillium, Haystack, Verdigris, Lumo, Pangolin, Bluebell, Xanthe, "
        "Driftwood, Maplewing, Octavo, Sprocket, Halcyon, Mirador, Tindra, Cardamom"
    ),
    "trade": _listed(
        "Foods, Logistics, Airlines, Motors, Robotics, Textiles, Energy, Breweries, Insurance, Records, Shipping, "
        "Biscuits, Software, Pharmaceuticals, Railways, Publishing, Telecom, Bicycles, Mining, Studios, Optics"
    ),
    "legal": _listed("Ltd, Inc, Group, Holdings, AG, Corp, Brothers, International"),
    "acronym": _listed(
        "WTLB, ICOR, NAPF, BQX, UNLO, TRK, OSEF, GDB, IFPO, KLRT, MHA, PZN, ECAF, SVQ, RNBI, AOWL, DZK, FITU, HBOC, JPX"
    ),
    "club": _listed(
        "Rovers, United, Athletic, Wanderers, FC, Tigers, Albion, Rangers, Comets, Herons, Town, Rowing Club, "
        "Thunder, Cycling Club, Lions"
    ),
    "paper": _listed("Courier, Gazette, Herald, Evening Post, Chronicle, Observer, Morning Star, Tribune"),
    "animals": _listed(
        "Frogs, Owls, Hedgehogs, Sea Otters, Beetles, Storks, Bats, Lighthouses, Marsh Birds, Old Bridges, Donkeys"
    ),
    "study": _listed(
        "Polar Soils, Small Rivers, Applied Patience, Deep Oceans, Rare Metals, Bird Migration, Volcanoes, Sleep, "
        "Ancient Music, Desert Plants, Public Health, Marine Biology, Maps, Whale Song, Soft Robots, Bread Science"
    ),
    "ministry": _listed("Finance, Fisheries, Quiet Roads, Culture, Education, Bridges and Canals, Health, Weather"),
    "metal": _listed("Copper, Golden, Silver, Emerald, Amber, Ivory, Iron, Crystal"),
    "sport": _listed("Rowing, Chess, Archery, Swimming, Cycling, Curling, Fencing, Climbing, Handball, Kite Flying"),
    "delight": _listed("Lanterns, Soup, Kites, Masks, Bells, Pumpkins, Lost Umbrellas, Small Boats, Honey, Fireflies"),
    "trouble": _listed("Flood, Frost, Fire, Drought, Eclipse, Strike, Blizzard, Silence"),
    "storm": _listed("Hurricane, Storm, Typhoon, Cyclone"),
    "nth": _listed("First, Second, Third, Fourth, Fifth, Sixth, Tenth, Twelfth"),
    "year_named": _listed("1709, 1788, 1816, 1848, 1871, 1903, 1926, 1947, 1953, 1968, 1976, 1987"),
}

PARTS = {
    **PEOPLE,
    **PLACES,
    **THINGS,
    "first": tuple(name for culture in CULTURES for name in PEOPLE[f"{culture}_first"]),
    "last": tuple(name for culture in CULTURES for name in PEOPLE[f"{culture}_last"]),
}
_OPEN = {**PEOPLE, **PLACES, **{name: THINGS[name] for name in ("brand", "acronym", "study", "animals", "delight")}}
_CLOSED = ("initial", "ending", "before_town")
# Two names in eight of the lists that the world has no end of: train never sees them.
KEPT_FROM_TRAIN = frozenset(
    name for part, names in _OPEN.items() if part not in _CLOSED for name in (*names[3::8], *names[6::8])
)

_GIVEN = [PEOPLE[f"{culture}_first"] for culture in (*CULTURES, *FAMILY_FIRST)]
SHE = frozenset(name for names in _GIVEN for name in names[0::2]) | {"Mrs", "Ms", "Sister", "Florence", "Georgia"}
HE = frozenset(name for names in _GIVEN for name in names[1::2]) | {"Mr", "Frank", "Bill"}

_TWO = (*(f"{{{c}_first}} {{{c}_last}}" for c in CULTURES), *(f"{{{c}_last}} {{{c}_first}}" for c in FAMILY_FIRST))
_FULL = (
    *_TWO,
    *_TWO,
    "{first} {last}",
    "{first} {anything}",
    "{anything} {last}",
    "{word_first} {last}",
    "{word_first} {english_last}",
    "{first} {initial} {last}",
    "{english_first} {initial} {english_last} Jr.",
    "{first} {last}-{last}",
    "{iberian_first} {iberian_last} {iberian_last}",
    "{iberian_first} de la {iberian_last} {iberian_last}",
    "{first} van der {german_last}",
    "{arabic_first} {arabic_first} al {arabic_last}",
)
_CITY = (
    *("{town}", "{town}", "{town}", "{anything}", "{anything}", "{stem}{ending}", "{stem}{ending}"),
    *("{before_town} {stem}{ending}", "San {saint}", "{stem}{ending} upon {wild}"),
)
_WILD = ("Lake {wild}", "Mount {wild}", "{wild} Bay", "{wild} Island", "Cape {wild}", "Point {wild}")
_COMPANY = (
    *("{brand} {trade}", "{brand} {trade}", "{last} {trade}", "{anything} {trade}", "{brand} {trade} {legal}"),
    *("{last} & Sons", "{last} and Daughters", "{last} , {last} & Partners", "{town} {trade}", "{brand} {legal}"),
    *("{last} {legal}", "Bank of {town}", "{wild} Savings Bank", "{acronym}"),
)
_LOCAL = ("{town} University", "{anything} College", "{town} General Hospital", "{town} Police", "{acronym}")
_INSTITUTE = (
    *("University of {town}", "{stem}{ending} City Council", "Ministry of {ministry}", "Institute of {study}"),
    *("Institute for the Study of {study}", "Society for the Protection of {animals}", "{anything} School of {study}"),
    *("Friends of the {wild} River", "National Museum of {study}", "World {sport} Federation", "{acronym}"),
)

# How a name of each kind is put together. A kind is a label, or a label and what its sentences need to know of it: bare
# names (`PER.last`, `ORG.brand`, `ORG.team`) stand only where the sentence itself says what they are.
PATTERNS = {
    "PER": (*_FULL, *("{last}", "{last}", "{anything}", "{first}", "{first}", "{word_first}") * 3),
    "PER.full": _FULL,
    "PER.two": _TWO,
    "PER.last": ("{last}", "{last}", "{anything}"),
    "PER.first": ("{first}", "{first}", "{word_first}", "{anything}"),
    "LOC": (*_CITY, *("{country}",) * 4, *_WILD[:4], "{tree} Street"),
    "LOC.city": _CITY,
    "LOC.country": ("{country}",),
    "LOC.wild": _WILD,
    # Behind an article.
    "LOC.vast": ("{wild} River", "{wild} Mountains", "Gulf of {wild}", "{wild} Desert", "{wild} Valley", "{wild} Sea"),
    "LOC.street": ("{tree} Street", "{tree} Square", "{tree} Lane", "{last} Road", "{stem}{ending} Avenue"),
    "ORG.company": _COMPANY,
    "ORG.brand": ("{brand}", "{brand}", "{brand}", "{last}", "{anything}", "{anything}"),
    "ORG.local": _LOCAL,
    "ORG.institute": _INSTITUTE,
    "ORG.club": ("{town} {club}", "{anything} {club}", "{stem}{ending} {club}", "FC {town}", "Real {saint}"),
    "ORG.team": ("{town}", "{anything}", "{stem}{ending}"),
    "ORG.paper": ("{town} {paper}", "{stem}{ending} {paper}", "{anything} {paper}"),
    "EVENT.sport": (
        *("{town} Marathon", "{anything} Open", "{metal} Cup", "World {sport} Championships", "{wild} Regatta"),
        *("Tour of {country}", "{stem}{ending} Grand Prix", "{metal} Games", "{town} {metal} Cup", "{country} Rally"),
    ),
    "EVENT.culture": (
        *("{town} Film Festival", "Festival of {delight}", "Night of {delight}", "{tree} Street Carnival"),
        *("{anything} Book Fair", "{stem}{ending} Jazz Festival", "Feast of Saint {saint}", "{metal} Music Awards"),
    ),
    "EVENT.science": (
        *("{nth} International Conference on {study}", "{town} Summit on {study}", "World Congress of {study}"),
        *("{nth} {anything} Workshop on {study}", "{brand} Lectures"),
    ),
    "EVENT.storm": ("{storm} {first}", "{storm} {first}", "{storm} {anything}"),
    "EVENT.history": (
        *("Battle of {town}", "Siege of {anything}", "Great {trouble} of {year_named}", "{town} Uprising"),
        *("Battle of {stem}{ending}", "Great {town} {trouble}"),
    ),
}
