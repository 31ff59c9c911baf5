package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The most that a package of the product, without blank lines, and a type of it may have.
const (
	maxPackageLines = 2500
	maxMethods      = 40
)

// bound is the most that one name may have, a bound that only falls, and why it may have more than others.
type bound struct {
	most   int
	reason string
}

// largePackages are the packages with more lines. New code goes to a package of its own.
var largePackages = map[string]bound{
	"api": {6360, "the client of the dialect is one type, and each file has the routes of a noun beside its methods; " +
		"new nouns have packages of their own below it"},
	"state": {6478, "a write of a job, a node or a plan changes rows of the others in one transaction, " +
		"so these functions call each other"},
	"structs": {7285, "rows, requests and plans contain each other; the wire format has one package of types"},
}

// largeTypes are the types with more methods.
var largeTypes = map[string]bound{
	"api.Client": {140, "the client of the dialect is flat: one method for each route, by the name of the route"},
	"api.Call": {49, "a request in work: its parameters, its body and its answer are parts of one exchange, " +
		"and the routes take it as their only argument"},
	"client.Client": {61, "the loops of a node share its lease, its runners and its list of servers"},
	"client/hooks/template.rendering": {59, "each function of the templates is a method, " +
		"because it counts against the limits of its rendering"},
	"server.Server": {52, "it owns the parts of a server, and answers for them to endpoints and loops"},
}

// TestPackages_AreSmall holds the lines of each package of the product. Generated code and blank lines do not
// count.
func TestPackages_AreSmall(t *testing.T) {
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
	checkBounds(t, "lines", lines, maxPackageLines, largePackages)
}

// TestTypes_AreSmall holds the number of methods of each type of the product.
func TestTypes_AreSmall(t *testing.T) {
	methods := map[string]int{}
	eachDecl(t, func(name string, d ast.Decl) {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			return
		}
		owner, _, _ := strings.Cut(strings.TrimSuffix(name, "."+f.Name.Name), "[")
		methods[owner]++
	})
	checkBounds(t, "methods", methods, maxMethods, largeTypes)
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
