package query

import (
	"berth/internal/rowfilter"
	"berth/structs"
)

// shownOfFilter is how many bytes of a filter its errors repeat.
const shownOfFilter = 1000

// MatchFunc reports whether a filter accepts a stub. One goroutine at a time may call it.
type MatchFunc func(stub any) (bool, error)

// CompileFilter prepares a filter expression for the rows of one list; "" matches every row. Its error is of
// kind invalid.
func CompileFilter(expression string) (MatchFunc, error) {
	if expression == "" {
		return func(any) (bool, error) { return true, nil }, nil
	}
	f, err := rowfilter.New(expression)
	if err != nil {
		return nil, badFilter(expression, err)
	}
	return func(stub any) (bool, error) {
		ok, err := f.Match(stub)
		if err != nil {
			err = badFilter(expression, err)
		}
		return ok, err
	}, nil
}

// badFilter returns the error of a filter, preceded by the filter.
func badFilter(expression string, err error) error {
	if len(expression) > shownOfFilter {
		expression = expression[:shownOfFilter] + "..."
	}
	return structs.Invalidf("the filter %q %w", expression, err)
}
