package access

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that is a text such as 1h in JSON, "" for 0. It also reads a number of
// nanoseconds.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) {
	text := ""
	if d != 0 {
		text = d.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads a text or a number.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var v any
	err := json.Unmarshal(b, &v)
	if err != nil {
		return err
	}

	switch v := v.(type) {
	case nil:
	case float64:
		*d = Duration(v)
	case string:
		*d = 0
		if v == "" {
			return nil
		}
		parsed, err := time.ParseDuration(v)
		*d = Duration(parsed)
		return err
	default:
		return fmt.Errorf("expected a duration such as \"1h\", found %s", b)
	}
	return nil
}

// Time is a time in UnixNano that JSON has as the dialect does. 0 is the zero time.
type Time int64

// MarshalJSON writes the time in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return json.Marshal(time.Time{})
	}
	return json.Marshal(time.Unix(0, int64(t)).UTC())
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (t *Time) UnmarshalJSON(b []byte) error {
	var v time.Time
	err := json.Unmarshal(b, &v)
	*t = 0
	if err == nil && !v.IsZero() {
		*t = Time(v.UnixNano())
	}
	return err
}
