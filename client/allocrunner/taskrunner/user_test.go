package taskrunner

import "testing"

func TestIsDenied_KnowsNamesAndNumbers(t *testing.T) {
	for _, c := range []struct {
		denied []string
		user   string
		want   bool
	}{
		{[]string{"root", "web"}, "root", true},
		{[]string{"root", "web"}, "web", true}, // also if this machine does not have it
		{[]string{"root"}, "0", true},
		{[]string{"root"}, "00", true},
		{[]string{"root"}, "0:1000", true},
		{[]string{"root"}, "root:0", true},
		{[]string{"0"}, "root", true},
		{[]string{"4242"}, "4242", true},
		{[]string{"root"}, "4242", false},
		{[]string{"root"}, "nobody", false},
		{[]string{"web"}, "other", false}, // neither has a number
		{[]string{"root"}, "", false},     // the driver decides
		{nil, "root", false},
	} {
		if got := isDenied(c.denied, c.user); got != c.want {
			t.Errorf("user %q, denied %q: got %v", c.user, c.denied, got)
		}
	}
}
