package explain

import (
	"regexp"
	"strings"
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// A reader that may not read the jobs of a namespace learns that something there is in the way, and not what.
func TestWhy_NamesNothingThatItsReaderMayNotKnow(t *testing.T) {
	others := regexp.MustCompile(`\b(db|low)\b`)
	volumes := regexp.MustCompile(`has volume vol|volume vol is attached`)
	found := 0
	for _, s := range allSituations() {
		if s.volume != "" {
			continue
		}

		f := schedtest.New(t, s.nodes)
		s.make(f)
		tx := f.Store.Read()
		why := func(sees func(namespace, id string) bool) string {
			_, reasons := Job(View{Tx: tx, Now: f.Clock, Sees: sees}, state.Job(tx, structs.DefaultNamespace, "web"))
			return stableIDs(f, structs.WhyText(reasons))
		}
		shown := why(nil)
		ofOthers := strings.Contains(shown, "of job db") || strings.Contains(shown, "of job low")
		if !ofOthers || strings.Contains(shown, "has had volume") { // volumes are shared within a namespace
			continue
		}

		found++
		hidden := why(func(string, string) bool { return false })
		names := others.MatchString(hidden) || volumes.MatchString(hidden)
		if names || !strings.Contains(hidden, "of another namespace") {
			t.Errorf("%s: got\n%s\nwhich names what its reader may not know", s.name, hidden)
		}
	}
	if found < 5 {
		t.Errorf("%d situations name other jobs; expected more, or the test tests nothing", found)
	}
}
