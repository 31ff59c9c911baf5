package archtest

import (
	"slices"
	"strings"
	"testing"
)

// mvccImports lists the packages of berth that the table store may import: none of them knows a row of a
// user.
var mvccImports = []string{"berth/internal/codec"}

func TestMVCC_KnowsNoRowType(t *testing.T) {
	found := false
	for _, p := range packages(t) {
		if !within(p.ImportPath, []string{"berth/internal/mvcc"}) {
			continue
		}

		found = true
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "berth/") && !slices.Contains(mvccImports, imp) {
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}

	if !found {
		t.Fatal("there is no package berth/internal/mvcc")
	}
}
