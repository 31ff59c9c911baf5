package operator

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"berth/cli/clitest"
)

// TestOpenArchive_ReadsAPipe reads an archive that cannot seek, as `snapshot inspect /dev/stdin` does.
func TestOpenArchive_ReadsAPipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	written := make(chan error, 1)
	go func() {
		_, err := in.Write(clitest.StateArchive(clitest.ValidState()))
		_ = in.Close()
		written <- err
	}()
	f, meta, err := openArchive(t.Context(), clitest.CallOf(t, &strings.Builder{}, nil),
		fmt.Sprintf("/proc/self/fd/%d", out.Fd()), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := <-written; err != nil || meta.Index != 42 {
		t.Errorf("got the index %d, error %v", meta.Index, err)
	}
}
