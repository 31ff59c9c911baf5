package boottime

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// /proc/uptime is of the same clock.
func TestNow_IsTheUptimeOfTheMachine(t *testing.T) {
	before := Now()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	after := Now()

	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	uptime := Instant(seconds * float64(time.Second))
	rounding := 10 * time.Millisecond
	if uptime.Add(rounding) < before || uptime > after.Add(rounding) {
		t.Errorf("uptime %s is not between %s and %s",
			time.Duration(uptime), time.Duration(before), time.Duration(after))
	}
}

func TestMonotonic_FollowsVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := Monotonic()
		before := clock()
		time.Sleep(time.Hour)
		if passed := clock().Sub(before); passed != time.Hour {
			t.Errorf("%s passed, want 1h", passed)
		}
	})
}
