package field

import (
	"errors"
	"strings"
	"testing"

	"berth/structs"
)

func TestErrors_HaveThePathOfTheirField(t *testing.T) {
	f := New("job %q", "a")
	f.Addf("one")
	f.At("group %q", "b").At("task %d", 1).Require(false, "two")
	f.At("group %q", "c").Require(true, "none")
	want := "job \"a\": one\njob \"a\": group \"b\": task 1: two"
	err := f.Err()
	if !structs.IsKind(err, structs.KindInvalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := New("").Err(); err != nil {
		t.Errorf("got %v without a fault", err)
	}
}

// A text from outside is cut, also in an error and as the path, but a text of berth is not.
func TestErrors_QuoteABoundedText(t *testing.T) {
	long := strings.Repeat("x", 3*structs.MaxQuoted)
	f := New("")
	f.Addf("%q", long)
	f.Addf("%v", errors.New(long))
	f.At("%s", long).Addf("path")
	f.Addf("%s", Text(long))
	lines := f.Found().Lines()
	for i, most := range []int{structs.MaxQuoted, 2 * structs.MaxQuoted, structs.MaxQuoted, len(long)} {
		if got := strings.Count(lines[i], "x"); got != most {
			t.Errorf("fault %d has %d bytes of the text, want %d", i+1, got, most)
		}
	}
}

func TestRange_NamesTheBoundWithItsUnit(t *testing.T) {
	for want, n := range map[string]int{
		"size 0 must be at least 1 MiB": 0,
		"size 9 must be at most 8 MiB":  9,
	} {
		f := New("")
		f.CheckRange("size", n, Between(1, 8).In(" MiB"))
		if err := f.Err(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f := New("")
	f.CheckRange("size", 8, Between(1, 8))
	if err := f.Err(); err != nil {
		t.Error(err)
	}
}

func TestForms_OfNames(t *testing.T) {
	for form, c := range map[string]struct {
		is      func(string) bool
		yes, no []string
	}{
		"service":  {IsServiceName, []string{"a", "A-1"}, []string{"", "-a", "a.b", strings.Repeat("a", 64)}},
		"network":  {IsHostNetwork, []string{"a.b", "public"}, []string{"", "a b"}},
		"domain":   {IsDomain, []string{"a.b", "host"}, []string{"", ".", "a..b", strings.Repeat("a", 65)}},
		"search":   {IsSearch, []string{".", "a.b."}, []string{"", "a_b"}},
		"mode":     {IsNetworkMode, []string{"host", "bridge", "none", "cni/x"}, []string{"", "cni/", "mesh"}},
		"variable": {IsEnvironKey, []string{"A", "a.b"}, []string{"", "A=", "A\x00"}},
		"header":   {IsHeader, []string{"X-A"}, []string{"", "X A", "X:"}},
	} {
		for _, text := range c.yes {
			if !c.is(text) {
				t.Errorf("%s: %q is none", form, text)
			}
		}
		for _, text := range c.no {
			if c.is(text) {
				t.Errorf("%s: %q is one", form, text)
			}
		}
	}
}
