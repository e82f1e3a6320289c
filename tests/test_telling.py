"""Which evaluations of a training get a line."""

from rapidbm.cli.terminal.telling import LEVEL, Telling, main_measure


def record(update, value, error=0.1):
    return {
        "epoch": 0,
        "update": update,
        "log_likelihood_train": [0.0],
        "log_likelihood_valid": [value],
        "log_likelihood_error_valid": [error],
    }


def test_a_line_where_the_likelihood_has_moved_and_not_for_every_look():
    telling = Telling()
    values = [-100.0, -60.0, -40.0, -39.9, -39.8, -39.7, -39.6, -20.0, -20.1, -60.0]
    worth = [telling.worth(record(i, value)) for i, value in enumerate(values)]
    assert worth == [True, True, True, False, False, False, False, True, False, True]


def test_what_lies_within_its_error_is_no_news():
    telling = Telling()
    assert telling.worth(record(0, -10.0))
    assert not telling.worth(record(1, -8.0, error=5.0))
    assert telling.worth(record(2, -8.0, error=0.1))


def test_a_value_without_an_error_is_not_known():
    telling = Telling()
    assert telling.worth(record(0, -10.0))
    assert telling.worth(record(1, -1.0, error=None))
    assert not telling.worth(record(2, -2.0, error=None))
    assert not any(telling.levelled(record(i, -1.0, error=None)) for i in range(3 * LEVEL))
    assert telling.best == float("-inf")


def test_a_look_that_failed_is_told_once_and_so_is_the_next_that_did_not():
    telling = Telling()
    values = [-10.0, None, None, -10.0, -10.0]
    worth = [telling.worth(record(i, value)) for i, value in enumerate(values)]
    assert worth == [True, True, False, True, False]


def test_it_says_once_that_the_likelihood_has_levelled_off():
    telling = Telling()
    said = [telling.levelled(record(i, -10.0 + min(i, 5))) for i in range(5 + 3 * LEVEL)]
    told = [(i, words) for i, words in enumerate(said) if words]
    assert [i for i, _ in told] == [5 + LEVEL]
    assert "-5.00, of update 5," in told[0][1]
    assert not telling.levelled({"epoch": 0, "update": 1, "hamming_test": [0.1]})


def test_the_validation_part_counts_where_there_is_one():
    assert main_measure(record(0, 1.0)) == "log_likelihood_valid"
    assert main_measure({"epoch": 1, "update": 2, "hamming_test": [0.5]}) == "hamming_test"
    assert main_measure({"epoch": 1, "update": 2}) == ""
    assert Telling().worth({"epoch": 1, "update": 2})
