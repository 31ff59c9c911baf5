package archtest

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shownSizes is the number of the largest packages and types that the tests print. A review decides on them:
// nothing is cut because a counter says so.
const shownSizes = 5

// TestPackages_ShowTheLargest prints the largest packages of the product, in lines. Generated code and blank
// lines do not count.
func TestPackages_ShowTheLargest(t *testing.T) {
	lines := map[string]int{}
	for _, path := range sources(t) {
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), root+string(filepath.Separator)))
		if !isProduct(dir, path) {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines[dir]++
			}
		}
	}
	showLargest(t, "lines", lines)
}

// TestTypes_ShowTheLargest prints the types of the product that have the most methods.
func TestTypes_ShowTheLargest(t *testing.T) {
	methods := map[string]int{}
	eachDecl(t, func(name string, d ast.Decl) {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			return
		}
		owner, _, _ := strings.Cut(strings.TrimSuffix(name, "."+f.Name.Name), "[")
		methods[owner]++
	})
	showLargest(t, "methods", methods)
}

// showLargest prints the largest sizes by name. It fails if there are none to print.
func showLargest(t *testing.T, unit string, sizes map[string]int) {
	t.Helper()
	if len(sizes) < shownSizes {
		t.Fatalf("%d names with %s were found", len(sizes), unit)
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(sizes[b]-sizes[a], strings.Compare(a, b))
	})
	for _, name := range names[:shownSizes] {
		t.Logf("%s has %d %s", name, sizes[name], unit)
	}
}

// bound is the most that one name may have, a bound that only falls, and why it may have more than others.
type bound struct {
	most   int
	reason string
}

// checkBounds reports the faults of sizes and bounds.
func checkBounds(t *testing.T, unit string, sizes map[string]int, most int, own map[string]bound) {
	t.Helper()
	for _, fault := range boundFaults(unit, sizes, most, own) {
		t.Error(fault)
	}
}

// boundFaults names the names whose size is above the bound for all, or above their own, and the own bounds
// that have no reason or are no longer needed.
func boundFaults(unit string, sizes map[string]int, most int, own map[string]bound) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if limit := max(most, own[name].most); sizes[name] > limit {
			faults = append(faults, fmt.Sprintf("%s has %d %s; expected at most %d", name, sizes[name], unit, limit))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(own)) {
		if sizes[name] <= most {
			faults = append(faults, fmt.Sprintf("%s has %d %s: remove its own bound", name, sizes[name], unit))
		}
		if own[name].reason == "" {
			faults = append(faults, fmt.Sprintf("%s has no reason for its own bound", name))
		}
	}

	return faults
}

func TestBounds_NeedAReason(t *testing.T) {
	const reason = "its parts share one state"
	sizes := map[string]int{"small": 3, "large": 30, "larger": 31}
	for want, own := range map[string]map[string]bound{
		"":                          {"large": {30, reason}, "larger": {31, reason}},
		"large has no reason":       {"large": {30, ""}, "larger": {31, reason}},
		"larger has 31 lines":       {"large": {30, reason}},
		"expected at most 30":       {"large": {30, reason}, "larger": {30, reason}},
		"small has 3 lines: remove": {"small": {9, reason}, "large": {30, reason}, "larger": {31, reason}},
	} {
		got := boundFaults("lines", sizes, 10, own)
		text := strings.Join(got, "; ")
		if (want == "") != (len(got) == 0) || len(got) > 1 || !strings.Contains(text, want) {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}
