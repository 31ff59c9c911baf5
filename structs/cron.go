package structs

import (
	"fmt"
	"time"

	"github.com/hashicorp/cronexpr"
)

// CheckCron returns the fault of a cron expression, nil for none.
func CheckCron(spec string) error {
	_, err := parseCron(spec)
	return err
}

// NextCron returns the first time of any of the expressions after a time, in the time zone of that; zero if
// there is none. A time in an hour that the time zone skips does not come on that day. One in an hour that it
// repeats comes twice.
func NextCron(specs []string, after time.Time) (next time.Time, err error) {
	for _, spec := range specs {
		expression, err := parseCron(spec)
		if err != nil {
			return time.Time{}, err
		}

		at, err := nextOfCron(expression, after)
		if err != nil {
			return time.Time{}, err
		}

		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}

	return next, nil
}

// parseCron parses a cron expression. The library may panic at a wrong one.
func parseCron(spec string) (expression *cronexpr.Expression, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	return cronexpr.Parse(spec)
}

// nextOfCron returns the first time of an expression after another time, in the zone of that. Around a change
// of the zone's clock the library may return an earlier time, or search without end. So it sees one span
// between two changes at a time, with the clock of the span as a time of UTC.
func nextOfCron(expression *cronexpr.Expression, after time.Time) (next time.Time, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the cron expression has no next time: %v", fault)
		}
	}()

	span := after
	for {
		_, seconds := span.Zone()
		offset := time.Duration(seconds) * time.Second
		clock := expression.Next(after.UTC().Add(offset))
		next = clock.Add(-offset).In(span.Location())
		_, end := span.ZoneBounds()
		switch {
		case clock.IsZero():
			return time.Time{}, nil
		case end.IsZero(), next.Before(end):
			return next, nil
		}

		span = end
		after = end.Add(-time.Nanosecond) // the end itself belongs to the next span
	}
}
