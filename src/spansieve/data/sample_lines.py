"""Whole lines of the sample corpus: openers and endings for clauses, questions, quotes, headlines, results, chat."""

from __future__ import annotations

OPENERS = (
    "on {weekday} ,",
    "in {month} {year} ,",
    "last {month}",
    "meanwhile ,",
    "to everyone 's surprise ,",
    "after a long night ,",
    "late on {weekday} evening ,",
    "in <LOC.city> ,",
    "according to the <ORG.institute> ,",
    "<ORG.local> confirmed that",
    "during the <EVENT.culture> ,",
    "a week before the <EVENT.sport> ,",
    "as <PER.full> [predicted|feared] ,",
    "it is true that",
    "nobody knows why , but",
    "{title} <PER.last> says that",
    "for the [first|second|third] time in {number} years ,",
)
ENDINGS = (
    ", <PER.full> said",
    ", according to the <ORG.paper>",
    ", a [spokeswoman|spokesman] for <ORG.company> said",
    ", and nobody seemed to mind",
    ", officials in <LOC.city> said on {weekday}",
    ", said {title} <PER.last> , who had seen it with {her} own eyes",
    ", despite the rain",
    ", a {nationality} newspaper wrote",
    ", which surprised <PER.full>",
)
JOINTS = (", while", ", and", ", but", "; meanwhile ,", ", because", "; in {month}")

SPEECH = (
    '" I have never [seen|heard] anything like it , " said <PER> , wiping {her} glasses .',
    '" We will not sell , " <PER.full> of <ORG.company> told the <ORG.paper> .',
    '" <LOC.city> is my home , " <PER> said as {she} packed .',
    '" They were better than us , " admitted <ORG.club> captain <PER.full> .',
    '" Nobody at <ORG.local> reads e-mail on {weekday} , " a clerk said .',
    "Have you [ever|already] been to <LOC> ?",
    "Who is <PER> , and why does {she} own {number} [bicycles|goats] ?",
    "Is <ORG.brand> a good company to work for , or only a rich one ?",
    "Where were you during the <EVENT.history> ?",
    "Dear {title} <PER.last> , thank you for your letter of {month} {day} .",
    "Good morning from <LOC.city> !",
    "Ask <PER.first> , {she} knows the way to <LOC.street> .",
    "Call <PER.full> before {clock} , please .",
    "Welcome to the <EVENT.science> .",
    "Will <PER> and {her} brother come to the <EVENT.culture> ?",
    "Why did <ORG.company> leave <LOC.country> ?",
    "Long live <LOC.country> !",
    "Can <ORG.team> still win the <EVENT.sport> ?",
    "Thanks to <PER.full> , <LOC.city> has [a library|clean water|trams] again .",
    "( <PER.full> reported from <LOC.city> ; editing by <PER.full> )",
    "<LOC.city> , {month} {day} ( <ORG.paper> )",
    "Next stop : <LOC.street> .",
    "Born in <LOC.city> in {year} , <PER.full> studied at the <ORG.institute> before {she} joined <ORG.company> .",
    "Sincerely , <PER.full>",
    "Contact : <PER.full> , <ORG.company> , <LOC.street> {number} , <LOC.city>",
)

# Nobody is named here, however many capitals there are.
NAMELESS = (
    "The [committee|orchestra|ferry|kettle] [left|arrived|fell silent] [at {clock}|on {weekday}|without a word] .",
    "[Rain|Snow|Fog|Sunshine] is expected [on|from] {weekday} , with [strong|light] winds in the [north|south|west] .",
    "Prices [rose|fell] {percent} percent in {month} , the [fastest|slowest] pace in {number} years .",
    "I think that [English|Portuguese|Korean] grammar is easier than [Latin|Finnish|Arabic] spelling .",
    "[Nobody|Everybody|Hardly anyone] [laughed|slept|understood] , and the [meeting|match] ended at {clock} .",
    "[Children|Pigeons|Lawyers|Clouds] [gathered|argued|dozed] in front of the [station|museum|bakery] .",
    "[Swimming|Reading|Whistling] after {clock} is [forbidden|encouraged|free on {weekday}] .",
    "In {month} the [garden|harbour|office] is [closed|empty|full of bees] .",
    "[May|June|April] was [cold|wet|kind to the apples] , and so was {month} .",
    "On {weekday} and {weekday} the museum opens at {clock} .",
    "[Ministers|Bakers] [Promise|Demand|Expect] [Cheaper Bread|Longer Summers|Rain] [By|Before] {month}",
    "[Ten|Five|Three] [Easy|Strange|Expensive] Ways To [Peel|Paint|Lose] [An Onion|A Fence|A Game Of Chess]",
    "[Court|Council|Parliament] [Rejects|Backs|Delays] [New|Third] [Tunnel|Tax|Airport] [Plan|Vote] [|Again]",
    "[Scientists|Doctors|Farmers] [Warn|Hope|Swear] [Coffee|Sleep|Cheese] [May|Will] [Help|Hurt] [Memory|Trade]",
    "[She|He] [will|may] [mark|bill|frank] the letters on {weekday} .",
    "[Hope|Grace|Joy] is a virtue , but [patience|breakfast] is a [habit|necessity] .",
    "The {nationality} [embassy|pavilion|orchestra] [reopened|burned down|was repainted] {number} years ago .",
    "The [President|Professor|Captain|Minister] [coughed|apologised|left early] .",
    "[Take|Bring|Add] {number} [grams|spoonfuls|cups] of [flour|sugar|salt] and [stir|wait|hope] .",
    "It was {clock} on a [wet|warm|foggy] {weekday} , and the [trains|clocks|shops] had stopped .",
    "{number} - {number} - {number}",
    "Chapter {number} : [The Letter|A Long Winter|What The Cook Saw|Nobody Knocks]",
    "[Please|Kindly] [mind the step|close the gate|feed the ducks] [|before {clock}] .",
    "We [hunted|searched] for the [keys|cat] until {clock} , then [had soup|gave up] .",
)

HEADLINES = (
    "<ORG.company> [Shares|Profits] [Soar|Tumble] As [Umbrella|Biscuit|Sock] Sales [Boom|Collapse]",
    "<PER.full> [Wins|Loses|Leaves|Quits] <EVENT.sport> [|In Tears|After Row]",
    "[Flood|Fire|Cheese] [Alarm|Festival] In <LOC.city> [|, {number} Hurt]",
    "<LOC.country> [Votes|Mourns|Celebrates] , <LOC.country> [Waits|Watches]",
    "<ORG.club> [Sack|Sign|Forgive] <PER.full>",
    "<EVENT.storm> [Nears|Batters|Spares] <LOC.country>",
    "[Mayor|Baker|Judge] <PER.full> [Denies|Admits] [Theft|Taking] Of [Statue|Swans] From <LOC.city>",
    "Review : <PER.full> At The <EVENT.culture>",
    "<ORG.local> [Warns|Reassures] [Drivers|Swimmers] In <LOC>",
    "[Opinion|Interview] : <PER.full> On [The Future|Winter|Losing]",
)
SHOUTED = (
    "<ORG.company> [cuts|adds] {number} jobs in <LOC.city>",
    "<LOC.country> [wins against|loses to] <LOC.country> in <EVENT.sport>",
    "soccer - <ORG.club> [beat|crush] <ORG.club> {score}",
    "storm damage [counted|repaired] in <LOC.city>",
    "[trains|ferries] [late|cancelled] [again|on {weekday}]",
    "tennis - <PER.full> wins <EVENT.sport>",
)
CHAT = (
    "has anyone seen <PER.first> ? {she} still has my [ladder|bike|charger]",
    "lol <PER.first> fell asleep at the <EVENT.culture> again",
    "is there a good [bakery|dentist] near <LOC.street> in <LOC.city> ?",
    "never buying anything from <ORG.company> again , their [app|website] ate my order",
    "just landed in <LOC.city> , it is [freezing|raining|lovely] here",
    "omg <ORG.club> won {score} , i am crying",
    "my boss at <ORG.company> says hi to <PER.full>",
    "who wants to go to [<LOC.wild>|the <LOC.vast>] on {weekday} ?",
    "ok , see you at {clock} , bring [snacks|a jumper]",
    "the wifi is down again , ask [the landlord|anyone but me]",
    "tell <PER.first> i said [thanks|sorry] for {her} soup",
    "my [mum|dad] was born in <LOC.country> and grew up in <LOC.city>",
    "i miss the [summer|sea|old office] so much",
)

# Neighbours without a token between them, of one label or of two.
RESULTS = (
    "{rank} . <PER.full> <LOC.country> {time}",
    "{rank} <PER.two> <LOC.country> {number} points",
    "Doubles : <PER.two> <PER.two> beat <PER.two> <PER.two> {tennis}",
    "<ORG.club> {score} <ORG.club> ( <PER.full> {number} , <PER.full> {number} )",
    "Lanes : <PER.two> <LOC.country> , <PER.two> <LOC.country> , <PER.two> <LOC.country>",
    "<LOC.city> {number} degrees , <LOC.city> {number} degrees , <LOC.city> {number} degrees",
    "{rank} . <ORG.club> {number} {number} {number}",
    "Cast : <PER.two> <PER.two> <PER.two>",
    "Halftime : <ORG.team> {score} <ORG.team>",
)
ONE_TOKEN = (
    *("Weather", "Thanks", "SPORT", "{weekday}", "Really", "No", "Never", "Contents", "{number}", "{month}", "{year}"),
    *("Goodbye", "Listen", "Applause", "BUSINESS", "Anyway", "Sunshine", "Advertisement", "{score}", "Hooray", "Soup"),
    *("Corrections", "Tomorrow", "Silence", "Horoscope", "Letters", "*", "...", "{nationality}", "Continued", "-30-"),
)

_NUMBERS = tuple(str(n) for n in range(3, 99))
WORDS = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "number": (*_NUMBERS, *_NUMBERS, "120", "250", "400", "1,200", "3,500", "12,000", "40,000"),
    "age": tuple(str(n) for n in range(71, 104)),
    "rank": tuple(str(n) for n in range(1, 21)),
    "year": tuple(str(n) for n in range(1951, 2031)),
    "percent": tuple(f"{n}.{m}" for n in range(1, 12) for m in (1, 3, 4, 7, 8)),
    "money": tuple(f"$ {n}.{m} {unit}" for n in range(1, 30) for m in (2, 5, 6) for unit in ("million", "billion")),
    "score": tuple(f"{a}-{b}" for a in range(1, 7) for b in range(a)),
    "draw": ("0-0", "1-1", "2-2", "3-3", "4-4"),
    "day": tuple(str(n) for n in range(1, 29)),
    "tennis": ("6-4 6-3", "7-5 6-2", "6-1 3-6 6-4", "6-0 6-0", "7-6 4-6 7-5", "6-3 6-3"),
    "time": tuple(f"{n}:{m:02d}.{m % 10}" for n in range(1, 15) for m in range(3, 60, 7)),
    "clock": tuple(f"{n} {half}" for n in range(1, 13) for half in ("a.m.", "p.m.", "o'clock")),
    "title": ("Dr", "Mr", "Mrs", "Ms", "Professor", "Captain", "Judge", "Sister", "Inspector", "Colonel"),
    "nationality": (
        *("Norwegian", "Kenyan", "Portuguese", "Vietnamese", "Ghanaian", "Japanese", "Polish", "Brazilian", "Moroccan"),
        *(
            "Chilean",
            "Korean",
            "Turkish",
            "Finnish",
            "Indian",
            "Greek",
            "Mexican",
            "Senegalese",
            "Icelandic",
            "Estonian",
        ),
        *("Peruvian", "Samoan", "Canadian", "Irish", "Danish", "Tunisian", "Dutch", "Swiss"),
    ),
}
