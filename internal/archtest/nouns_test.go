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

// nounAreas are the areas through which a noun goes, from its rows to its verbs.
var nounAreas = []string{"structs", "state", "endpoints", "api", "cli"}

// areaWords name the packages of those areas that are no noun of users, but a part of the area.
var areaWords = map[string][]string{
	"structs": {"access", "capacity", "cluster", "defaults", "field", "jobaction", "jobdiff", "nodecalls",
		"report", "semver", "storage", "taskfiles", "validate"},
	"state":     {"csi", "schema", "sharing", "trust", "volumesecrets"},
	"endpoints": {"access", "audit", "cluster", "core", "csi", "injection", "query", "release", "rights"},
	"api": {"access", "allocs", "areas", "events", "jobs", "nodes", "operator", "show", "transport",
		"volumes"},
	"cli": {"access", "certificate", "command", "debug", "operator", "setup", "watch"},
}

// emptyNames say nothing about what is in a package.
var emptyNames = []string{
	"callers", "coded", "common", "foreign", "forget", "helpers", "holds", "implied", "late", "misc", "offers",
	"outside", "parking", "util", "utils",
}

var nounRow = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([^|]+) \\|([^|]*)\\|$")

// nouns reads the table of nouns of the glossary: each noun with its spellings that no package has.
func nouns(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## Nouns of the code\n")
	section, _, _ = strings.Cut(section, "\n## ")
	found := map[string][]string{}
	for _, m := range nounRow.FindAllStringSubmatch(section, -1) {
		found[m[1]] = strings.Fields(strings.ReplaceAll(m[3], ",", ""))
	}
	if len(found) < 20 {
		t.Fatalf("the glossary has %d nouns of the code", len(found))
	}
	return found
}

// TestPackages_HaveOneNameForANoun: a noun has the same name in each area, and a reader who knows it in one
// finds it in all.
func TestPackages_HaveOneNameForANoun(t *testing.T) {
	all := nouns(t)
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, "berth/")
		if len(p.GoFiles) == 0 || !isProduct(rel, "") {
			continue
		}
		fault := nameFault(rel, all)
		if fault != "" {
			t.Errorf("%s: %s", rel, fault)
		}
	}
}

// nameFault returns what is wrong with the name of a package, "" for nothing.
func nameFault(rel string, all map[string][]string) string {
	name := path.Base(rel)
	if slices.Contains(emptyNames, name) {
		return "the name is no noun"
	}
	area, inner, _ := strings.Cut(rel, "/")
	if inner == "" || !slices.Contains(nounAreas, area) || slices.Contains(areaWords[area], name) {
		return ""
	}
	for noun, others := range all {
		if slices.Contains(others, name) {
			return "the glossary calls this " + noun
		}
	}
	if _, isNoun := all[name]; !isNoun {
		return "the glossary has no such noun of the code"
	}
	return ""
}

func TestNameFault_FindsNames(t *testing.T) {
	all := map[string][]string{"quota": {"quotas", "quotacmd"}}
	for rel, want := range map[string]string{
		"state/quota":          "",
		"state/schema":         "",
		"client/csi/mounts":    "",
		"state/quotas":         "the glossary calls this quota",
		"client/quotas":        "",
		"client/csi/parking":   "the name is no noun",
		"endpoints/snapgroups": "the glossary has no such noun of the code",
	} {
		if got := nameFault(rel, all); got != want {
			t.Errorf("%s: got %q, want %q", rel, got, want)
		}
	}
}
