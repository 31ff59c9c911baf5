package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testCommands are the commands of the Makefile that run tests, by their names in scripts/tests.list. The
// packages that the list leaves out belong to the first.
var testCommands = []string{"test", "race", "all"}

// listedPackage is a line of scripts/tests.list: a package, or one test of it.
type listedPackage struct{ command, folder, test string }

// readTestList returns the lines of scripts/tests.list.
func readTestList(t *testing.T) (list []listedPackage) {
	t.Helper()
	text, err := os.ReadFile(root + "/scripts/tests.list")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 3 || !slices.Contains(testCommands[1:], words[0]) {
			t.Fatalf("scripts/tests.list: %q is no command, package and reason", line)
		}
		folder, test, _ := strings.Cut(words[1], ":")
		list = append(list, listedPackage{words[0], folder, test})
	}
	return list
}

// outsiders are the names by which a test reaches a program of others. A test that mentions one needs more
// than the packages that `make test` installs.
var outsiders = regexp.MustCompile(`\b(consultest\.Start|dockertest\.Start\w*|drivertest\.PeerPlugin|` +
	`kit\.CNIPlugins|PEER_BIN|chromedp|mkdocs|groff|linux\.uml)\b`)

// binaryNeeded matches a test that needs the built binary or a browser: `make test` runs the stories of
// those.
var binaryNeeded = regexp.MustCompile(`"BERTH_(BIN|CONVERT)"`)

// TestCommands_EachPackageHasOne holds that each package of tests belongs to exactly one of `make test`,
// `make test-race` and `make test-all`: the list names a package once, each of its lines names tests that
// exist, and a package that needs a program of others is not left to `make test`.
func TestCommands_EachPackageHasOne(t *testing.T) {
	tests := map[string][]string{} // the texts of the files with tests of a folder
	for _, file := range sources(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(file), root+string(filepath.Separator)))
		tests[folder] = append(tests[folder], string(text))
	}
	list := readTestList(t)
	for _, fault := range listFaults(list, tests) {
		t.Error(fault)
	}
	for folder, texts := range tests {
		if slices.ContainsFunc(list, func(l listedPackage) bool { return l.folder == folder }) ||
			strings.HasPrefix(folder, "bench/") || folder == "internal/archtest" || folder == "test/refdocs" {
			continue
		}
		if module := moduleOf(folder); module != "" {
			t.Errorf("%s is of the module %s, which `make test` does not run: list it in scripts/tests.list", folder, module)
		}
		for _, text := range texts {
			if found := outsiders.FindString(text); found != "" {
				t.Errorf("%s needs a program of others (%s): list it in scripts/tests.list", folder, found)
			}
			if binaryNeeded.MatchString(text) {
				t.Errorf("%s needs the built binary: list it in scripts/tests.list", folder)
			}
		}
	}
}

// moduleOf returns the module below the root to which a folder belongs, or "".
func moduleOf(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(root + "/" + folder + "/go.mod"); err == nil {
			return folder
		}
	}
	return ""
}

// listFaults returns what is wrong with the list beside the tests of the folders.
func listFaults(list []listedPackage, tests map[string][]string) (faults []string) {
	seen := map[string]bool{}
	for _, l := range list {
		name := l.folder + ":" + l.test
		if seen[name] || l.test != "" && seen[l.folder+":"] {
			faults = append(faults, l.folder+" is listed twice")
		}
		seen[name] = true
		all := strings.Join(tests[l.folder], "\n")
		switch {
		case all == "":
			faults = append(faults, l.folder+" has no tests")
		case l.test != "" && !strings.Contains(all, "func "+l.test+"("):
			faults = append(faults, l.folder+" has no test "+l.test)
		}
	}
	return faults
}

func TestCommands_NameTheFaultsOfAList(t *testing.T) {
	tests := map[string][]string{"a": {"func TestOne(t"}, "b": {"func TestTwo(t"}}
	for want, list := range map[string][]listedPackage{
		"":                      {{"all", "a", "TestOne"}, {"race", "b", ""}},
		"b is listed twice":     {{"all", "b", ""}, {"race", "b", ""}},
		"a is listed twice":     {{"all", "a", ""}, {"all", "a", "TestOne"}},
		"c has no tests":        {{"all", "c", ""}},
		"a has no test TestTwo": {{"all", "a", "TestTwo"}},
	} {
		if got := strings.Join(listFaults(list, tests), "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCommands_RunAllPackages holds the script to the list: it runs each module of the command all and each
// package of test/ by name, and those beside them by the list. A package that no function of the script names
// would never run.
func TestCommands_RunAllPackages(t *testing.T) {
	script, err := os.ReadFile(root + "/scripts/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range readTestList(t) {
		named := strings.HasPrefix(l.folder, "test/") || l.folder == "packaging/man"
		module := moduleOf(l.folder)
		if module != "" && !regexp.MustCompile(`\bcd `+module+`( |$|\n)`).Match(script) {
			t.Errorf("scripts/test.sh does not run the module %s", module)
		}
		if l.command != "all" || !named {
			continue
		}
		if !regexp.MustCompile(`[ /]` + regexp.QuoteMeta(l.folder) + `( |$|\n)`).Match(script) {
			t.Errorf("scripts/test.sh does not run %s", l.folder)
		}
	}
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	ci, err := os.ReadFile(root + "/.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := os.ReadFile(root + "/.github/workflows/ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range testCommands {
		target := "test-" + command
		if command == "test" {
			target = "test"
		}
		if !strings.Contains(string(makefile), "\t./scripts/test.sh "+command+"\n") {
			t.Errorf("no target of the Makefile runs the command %s", command)
		}
		if !regexp.MustCompile(`for target in .*\b` + target + `\b`).Match(ci) {
			t.Errorf(".ci/run does not run make %s", target)
		}
		if !strings.Contains(string(jobs), "make "+target+"\n") {
			t.Errorf("ci.yml has no job for make %s", target)
		}
	}
}
