package codecgen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files again")

// TestWhatIsGeneratedIsCurrent holds the codecs of structs, and the list of them that tests go over, against
// their source.
func TestWhatIsGeneratedIsCurrent(t *testing.T) {
	dir := filepath.Join("..", "..", "structs")
	codecs, err := Generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := List(dir, "berth/structs", "codec_test")
	if err != nil {
		t.Fatal(err)
	}
	hold(t, filepath.Join(dir, File), codecs)
	hold(t, filepath.Join("..", "codec", "all_gen_test.go"), list)
}

func hold(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what its source says (%v); run `make goldens`", path, err)
	}
}
