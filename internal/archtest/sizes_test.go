package archtest

import (
	"bytes"
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

// largePackages are the packages with more lines, and the most that each may have: a bound that only falls.
// They are from a time before the bound. New code goes to a package of its own.
var largePackages = map[string]int{
	"api":       6145,
	"endpoints": 6200,
	"state":     11490,
	"structs":   10330,
}

// largeTypes are the types with more methods, and the most that each may have: a bound that only falls.
var largeTypes = map[string]int{
	"api.Client":                      140,
	"api.call":                        49,
	"client.Client":                   74,
	"client/drivers/docker.Driver":    78,
	"client/hooks/template.rendering": 59,
	"server.Server":                   52,
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

// checkBounds reports the names whose size is above the bound for all, or above their own, and the own bounds
// that are no longer needed.
func checkBounds(t *testing.T, unit string, sizes map[string]int, most int, own map[string]int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		bound := max(most, own[name])
		if sizes[name] > bound {
			t.Errorf("%s has %d %s; expected at most %d", name, sizes[name], unit, bound)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if sizes[name] <= most {
			t.Errorf("%s has %d %s: remove its own bound", name, sizes[name], unit)
		}
	}
}
