package catalog

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A process that writes without an end, and without the end of a line, fills neither the disk nor a line.
func TestLines_CutLongOnesAndEmptyTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), stdoutName)
	ended := make(chan struct{})
	out, err := newTail(path, ended)
	if err != nil {
		t.Fatal(err)
	}
	defer out.file.Close()
	text := "1|2|unix|/s|grpc\n" + strings.Repeat("x", 3*maxTail)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var first string
	read := 0
	longest := 0
	done := make(chan error)
	go func() {
		scanner := bufio.NewScanner(&lines{tail: out})
		for scanner.Scan() {
			if read == 0 {
				first = scanner.Text()
			}
			read += len(scanner.Text())
			longest = max(longest, len(scanner.Text()))
		}
		done <- scanner.Err()
	}()
	size := int64(len(text))
	for limit := time.Now().Add(time.Minute); size > 0 && time.Now().Before(limit); time.Sleep(tailInterval) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size = info.Size()
	}
	close(ended)
	err = <-done
	if err != nil || size != 0 || first != "1|2|unix|/s|grpc" ||
		read != len(text)-1 || longest != maxOutputLine {
		t.Errorf("first line %q, %d bytes in lines of up to %d, %d bytes are left, %v",
			first, read, longest, size, err)
	}
}
