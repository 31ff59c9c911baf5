package raftfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// A file is read up to its last data, also behind a hole.
func TestReadWritten_LeavesOutTheEndThatWasAllocated(t *testing.T) {
	const size, second = 4 << 20, 1 << 20
	for name, offsets := range map[string][]int64{
		"nothing":         nil,
		"the beginning":   {0},
		"behind a hole":   {0, second},
		"the last of all": {size - 1},
	} {
		path := filepath.Join(t.TempDir(), "segment")
		f, err := os.Create(path)
		check(t, err)
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err != nil {
			kit.SkipLacking(t, "a file system that allocates blocks: "+err.Error())
		}
		end := int64(0)
		for _, offset := range offsets {
			_, err = f.WriteAt([]byte("x"), offset)
			check(t, err)
			end = offset + 1
		}
		check(t, f.Close())

		got, err := readWritten(path, size)
		check(t, err)
		whole, err := readLimited(path, size)
		check(t, err)
		if n := int64(len(got)); n < end || n > end+second/2 {
			t.Errorf("%s: read %d bytes, want %d and the rest of a block", name, n, end)
		}
		if !bytes.HasPrefix(whole, got) || len(bytes.Trim(whole[len(got):], "\x00")) > 0 {
			t.Errorf("%s: what was read is not the file without zeros at its end", name)
		}
	}
}

func TestReadWritten_HasBounds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "large")
	check(t, os.WriteFile(path, make([]byte, 11), 0o600))
	pipe := filepath.Join(dir, "pipe")
	check(t, unix.Mkfifo(pipe, 0o600))
	for _, p := range []string{path, pipe} {
		_, err := readWritten(p, 10)
		if err == nil || !strings.Contains(err.Error(), "not a regular file of at most 10 bytes") {
			t.Errorf("%s: got %v", filepath.Base(p), err)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
