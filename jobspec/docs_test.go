package jobspec

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var fenced = regexp.MustCompile("(?s)```hcl\n(.*?)```")

// TestDocs_HaveValidExamplesAndAllFunctions parses the examples of docs/jobs.md, and compares its functions.
func TestDocs_HaveValidExamplesAndAllFunctions(t *testing.T) {
	page, err := os.ReadFile("../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := fenced.FindAllStringSubmatch(string(page), -1)
	if len(examples) == 0 {
		t.Error("the page has no examples")
	}
	for _, e := range examples {
		f, err := ReadJob("jobs.md", []byte(e[1]), &Inputs{Env: []string{"BERTH_VAR_image=web:2"}})
		if err != nil {
			t.Errorf("%s\n%v", e[1], err)
			continue
		}
		f.Job.Canonicalize()
		if err := f.Job.Validate(); err != nil {
			t.Errorf("%s\n%v", e[1], err)
		}
	}
	_, section, _ := strings.Cut(string(page), "## Functions")
	section, _, _ = strings.Cut(section, "The file functions")
	var documented, known []string
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	for name := range newBudget().table("") {
		known = append(known, name)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("the page has the functions\n%v, the code\n%v", documented, known)
	}
}
