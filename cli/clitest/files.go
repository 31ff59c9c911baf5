package clitest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// makeFiles makes the directory of an allocation.
func makeFiles(dir string) error {
	var lines strings.Builder
	for i := range 600 {
		fmt.Fprintln(&lines, "line", i)
	}

	err := os.MkdirAll(filepath.Join(dir, "server/secrets"), 0o755)
	for name, text := range map[string]string{
		"a\x1bb.html": "<p>",
		"lines.txt":   lines.String(),
	} {
		path := filepath.Join(dir, "server", name)
		err = errors.Join(err,
			os.WriteFile(path, []byte(text), 0o640),
			os.Chmod(path, 0o640),
			os.Chtimes(path, Today, Today))
	}

	return errors.Join(err,
		os.Chmod(filepath.Join(dir, "server/secrets"), 0o700),
		os.Chtimes(filepath.Join(dir, "server/secrets"), Today, Today))
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
