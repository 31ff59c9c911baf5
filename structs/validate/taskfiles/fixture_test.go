package taskfiles

import (
	"regexp"
	"slices"
	"testing"
)

// checkDocumented compares the names in a part of a page with those of functions.
func checkDocumented(t *testing.T, section string, known []string) {
	t.Helper()
	var documented []string
	for _, m := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("the page has the functions\n%v, the code\n%v", documented, known)
	}
}
