package acl

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// span is a word in backticks.
var span = regexp.MustCompile("`([a-z-]+)`")

func namesIn(text string) (all []Capability) {
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		all = append(all, Capability(m[1]))
	}
	return all
}

// TestPage_HasTheCapabilities: docs/operations/acl.md says what each shorthand and each capability gives.
func TestPage_HasTheCapabilities(t *testing.T) {
	text, err := os.ReadFile("../docs/operations/acl.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	between := func(begin, end string) string {
		_, after, found := strings.Cut(page, begin)
		inside, _, ends := strings.Cut(after, end)
		if !found || !ends {
			t.Fatalf("the page has no text between %q and %q", begin, end)
		}
		return inside
	}
	// Nothing asks for these, and the page leaves them out.
	unused := []Capability{SubmitRecommendation, SentinelOverride}
	want := func(what string, got, want []Capability) {
		t.Helper()
		got = slices.Compact(slices.Sorted(slices.Values(got)))
		want = slices.DeleteFunc(slices.Sorted(slices.Values(want)), func(c Capability) bool {
			return slices.Contains(unused, c)
		})
		want = slices.Compact(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the page has %v, want %v", what, got, want)
		}
	}

	named := namesIn(between("which no shorthand gives: ", "."))
	for name, gives := range namespaceFamily.shorthands {
		got := namesIn(between("| `policy = \""+name+"\"` | ", " |\n"))
		if len(got) > 2 && got[0] == "read" && got[1] == "scale" {
			got = slices.Concat(got[2:], readNamespace, scaleNamespace)
		}
		want(name, got, gives)
		named = append(named, got...)
	}
	want("the namespace", named, namespaceFamily.all)
	for name, gives := range implied {
		want(string(name), namesIn(between("`"+string(name)+"` has ", ".")), gives)
	}
	want("volumes", namesIn(between("`csi-`\n  capabilities: ", " `policy =")), volumeFamily.all)
	want("variables", namesIn(between("variable's `path` are ", ".")), variablesFamily.all)
}
