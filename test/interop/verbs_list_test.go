package interop

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// verbsGolden lists the verbs of the peer's command line with the class of each, "verb: class: reason":
//
//   - works: the reason is a file of this package in which the peer's command line runs the verb.
//   - rejected: berth does not take what the verb asks, for the reason. If berth has a command of this name,
//     the reason names it.
//   - missing: berth has nothing for the verb, for the reason.
const verbsGolden = "testdata/peer_verbs.txt"

// laterGolden lists likewise the verbs that the documentation of newer versions of the peer has beside them.
// There works needs no reason: the peer's command line of the tests has no such verb, and berth's has it.
const laterGolden = "testdata/later_verbs.txt"

// commandsPage has a heading for each command of berth. Package refdocs checks it against the commands.
const commandsPage = "../../docs/reference/cli.md"

// heading finds a command in the page. Its arguments follow.
var heading = regexp.MustCompile(`(?m)^## .berth ([a-z -]*[a-z])( \[([a-z]+)\])?`)

// classedVerb is a line of the list.
type classedVerb struct {
	verb, class, reason string
}

// readVerbs returns a list.
func readVerbs(t *testing.T, file string) (all []classedVerb) {
	t.Helper()
	text, err := os.ReadFile(file)
	checkNoError(t, "the list of verbs", err)
	for line := range strings.Lines(string(text)) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		class, reason, _ := strings.Cut(rest, ": ")
		all = append(all, classedVerb{verb: verb, class: class, reason: reason})
	}
	return all
}

// commandsOfBerth returns the commands of berth by its reference page.
func commandsOfBerth(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile(commandsPage)
	checkNoError(t, "the page of the commands", err)
	for _, m := range heading.FindAllStringSubmatch(string(page), -1) {
		all = append(all, m[1])
		if m[3] != "" { // a word that makes another command
			all = append(all, m[1]+" "+m[3])
		}
	}
	return all
}

// mostMissing bounds the verbs for which berth has nothing, and mostOtherWays those that it rejects because
// it is made another way.
const (
	mostMissing   = 2
	mostOtherWays = 7
)

// isElsewhere matches the reason of a verb that the dialect's free edition for Linux has not either.
var isElsewhere = regexp.MustCompile(`^(the dialect's enterprise edition|berth runs on Linux alone)`)

// TestPeersVerbs_HaveTheirClass checks the class of each verb. It needs no agent.
func TestPeersVerbs_HaveTheirClass(t *testing.T) {
	t.Parallel()
	commands := commandsOfBerth(t)
	missing, otherWays := 0, 0
	check := func(v classedVerb, isRun bool) {
		has := slices.Contains(commands, v.verb)
		switch {
		case v.class == "works" && isRun:
			checkRunsVerb(t, v.reason, v.verb)
		case v.class == "works":
			if !has {
				t.Errorf("%s: berth has no command of this name", v.verb)
			}
		case v.class != "rejected" && v.class != "missing":
			t.Errorf("%s: the class %q is none of works, rejected and missing", v.verb, v.class)
		case v.reason == "":
			t.Errorf("%s: the class %s needs a reason", v.verb, v.class)
		case has && !strings.Contains(v.reason, "berth "+v.verb):
			t.Errorf("%s: berth has a command of this name: change the class %s, or name it", v.verb, v.class)
		case v.class == "missing":
			missing++
		case !isElsewhere.MatchString(v.reason):
			otherWays++
		}
	}
	for _, v := range readVerbs(t, verbsGolden) {
		check(v, true)
	}
	for _, v := range readVerbs(t, laterGolden) {
		check(v, false)
	}
	if missing > mostMissing {
		t.Errorf("%d verbs are missing, want at most %d", missing, mostMissing)
	}
	if otherWays > mostOtherWays {
		t.Errorf("berth rejects %d verbs since it is made another way, want at most %d", otherWays, mostOtherWays)
	}
}

// runs matches, in the source of a test, the beginning of a command of the peer's command line that is to
// succeed: a call, or a list of arguments. A step of a table has its verb in one string.
const runs = `(\.(run|stream)\(|\.exits\(0, |\{)`

// checkRunsVerb fails the test unless the peer's command line runs a verb in a file of this package.
func checkRunsVerb(t *testing.T, file, verb string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s works: name the file of the test that runs it: %v", verb, err)
		return
	}
	words := regexp.QuoteMeta(`"` + strings.ReplaceAll(verb, " ", `", "`) + `"`)
	step := `\{"[A-Z]*", "` + regexp.QuoteMeta(verb) + `"`
	if !regexp.MustCompile(runs + words + `|` + step).Match(source) {
		t.Errorf("%s: no test of %s runs it", verb, file)
	}
}

// TestPeersVerbs_AreAllListed compares the list with the help of the peer's command line.
func TestPeersVerbs_AreAllListed(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("PEER_BIN")
	if bin == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh)")
	}
	var listedVerbs []string
	for _, v := range readVerbs(t, verbsGolden) {
		listedVerbs = append(listedVerbs, v.verb)
	}

	var verbs []string
	_, help := peerCLI{t: t, bin: bin}.result("-h")
	for _, m := range listed.FindAllStringSubmatch(help, -1) {
		verbs = append(verbs, verbsBelow(t, bin, m[1])...)
	}
	slices.Sort(verbs)
	if slices.Equal(verbs, listedVerbs) {
		return
	}
	for _, verb := range verbs {
		if !slices.Contains(listedVerbs, verb) {
			t.Errorf("%s lacks %q", verbsGolden, verb)
		}
	}
	for _, verb := range listedVerbs {
		if !slices.Contains(verbs, verb) {
			t.Errorf("the peer's command line has no %q", verb)
		}
	}
	t.Errorf("the list has %d verbs, want %d, each once and in the order of the alphabet",
		len(listedVerbs), len(verbs))
}

// hiddenVerbs are the names that the help of the peer's command line leaves out, with the listed verb that
// each stands for.
var hiddenVerbs = map[string]string{
	"alloc-status":       "alloc status",
	"client-config":      "node config",
	"debug":              "operator debug",
	"eval-status":        "eval status",
	"fs":                 "alloc fs",
	"init":               "job init",
	"inspect":            "job inspect",
	"logs":               "alloc logs",
	"node-drain":         "node drain",
	"node-status":        "node status",
	"plan":               "job plan",
	"server-force-leave": "server force-leave",
	"server-join":        "server join",
	"server-members":     "server members",
	"validate":           "job validate",
}

// TestPeersVerbs_HiddenNamesStandForListedVerbs holds that the list says everything about them, too. The only
// other hidden verb is check: see TestPeersCommandLine_ChecksAgents.
func TestPeersVerbs_HiddenNamesStandForListedVerbs(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("PEER_BIN")
	if bin == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh)")
	}
	listedVerbs := readVerbs(t, verbsGolden)
	for name, verb := range hiddenVerbs {
		_, help := peerCLI{t: t, bin: bin}.result(name, "-h")
		if !strings.Contains(help, "Usage: nomad "+verb+" ") {
			t.Errorf("%s is not %s:\n%s", name, verb, help)
		}
		if !slices.ContainsFunc(listedVerbs, func(v classedVerb) bool { return v.verb == verb }) {
			t.Errorf("%s: the list has no %s", name, verb)
		}
	}
}
