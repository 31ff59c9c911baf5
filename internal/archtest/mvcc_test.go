package archtest

import (
	"slices"
	"strings"
	"testing"
)

// mvccImports lists the packages of berth that the table store and the packages below it may import: none of
// them knows a row of a user.
var mvccImports = []string{
	"berth/internal/codec", "berth/internal/mvcc/parts", "berth/internal/mvcc/pieces",
	"berth/internal/mvcc/vector", "berth/internal/ordered",
}

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
