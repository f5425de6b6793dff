from tests.single_thread import one_thread as one_thread
