package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The product and the tests of a package, with each way to a goroutine.
const (
	product = `package p

type store struct{}

func (s *store) Load() { go func() {}() }

func sum() int { return 1 }
`
	tests = `package p

func helper() { new(store).Load() }

var table = []func(){helper}

func TestDirect(t *testing.T) { go sum() }
func TestGroup(t *testing.T) { var g sync.WaitGroup; g.Go(func() {}) }
func TestTimer(t *testing.T) { time.AfterFunc(1, func() {}) }
func TestBeside(t *testing.T) { t.Parallel() }
func TestServer(t *testing.T) { httptest.NewServer(nil) }
func TestMethod(t *testing.T) { new(store).Load() }
func TestHelper(t *testing.T) { helper() }
func TestTable(t *testing.T) { table[0]() }
func ExampleHelper() { helper() }
func FuzzHelper(f *testing.F) { helper() }
func TestAlone(t *testing.T) { sum() }
func BenchmarkHelper(b *testing.B) { helper() }
`
)

func TestStartingTests_AreThoseOfEachWay(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"p.go": product, "p_test.go": tests} {
		err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := startingTests(dir)
	want := []string{
		"ExampleHelper", "FuzzHelper", "TestBeside", "TestDirect", "TestGroup", "TestHelper", "TestMethod",
		"TestServer", "TestTable", "TestTimer",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestStartingTests_NeedAPackage(t *testing.T) {
	_, err := startingTests(t.TempDir())
	if err == nil {
		t.Error("a folder without Go files has no error")
	}
}

// The split of this repository: a package with no goroutine has no such test.
func TestStartingTests_OfThisRepository(t *testing.T) {
	for dir, want := range map[string]string{
		"internal/mvcc": "TestValue_IsSafeForConcurrentUse",
		"jobspec":       "",
		"test/refdocs":  "",
	} {
		got, err := startingTests(filepath.Join("..", "..", dir))
		if err != nil || want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) {
			t.Errorf("%s: got %v, %v; want %q among them", dir, got, err, want)
		}
	}
}
