package gotext

import (
	"fmt"
	"time"
)

// standardMethods are the methods that texts may call in each set.
var standardMethods = []Methods{
	MethodsOf[fmt.Stringer](Functions{"String": fmt.Stringer.String}),
	MethodsOf[error](Functions{"Error": error.Error}),
	MethodsOf[time.Time](Functions{
		"Add":        time.Time.Add,
		"AddDate":    time.Time.AddDate,
		"After":      time.Time.After,
		"Before":     time.Time.Before,
		"Day":        time.Time.Day,
		"Equal":      time.Time.Equal,
		"Format":     time.Time.Format,
		"Hour":       time.Time.Hour,
		"IsZero":     time.Time.IsZero,
		"Local":      time.Time.Local,
		"Minute":     time.Time.Minute,
		"Month":      time.Time.Month,
		"Nanosecond": time.Time.Nanosecond,
		"Round":      time.Time.Round,
		"Second":     time.Time.Second,
		"Sub":        time.Time.Sub,
		"Truncate":   time.Time.Truncate,
		"UTC":        time.Time.UTC,
		"Unix":       time.Time.Unix,
		"UnixMilli":  time.Time.UnixMilli,
		"UnixNano":   time.Time.UnixNano,
		"Weekday":    time.Time.Weekday,
		"Year":       time.Time.Year,
		"YearDay":    time.Time.YearDay,
	}),
	MethodsOf[time.Duration](Functions{
		"Abs":          time.Duration.Abs,
		"Hours":        time.Duration.Hours,
		"Microseconds": time.Duration.Microseconds,
		"Milliseconds": time.Duration.Milliseconds,
		"Minutes":      time.Duration.Minutes,
		"Nanoseconds":  time.Duration.Nanoseconds,
		"Round":        time.Duration.Round,
		"Seconds":      time.Duration.Seconds,
		"Truncate":     time.Duration.Truncate,
	}),
}
