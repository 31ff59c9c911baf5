package kit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
)

var (
	mu   sync.Mutex
	path string
	dir  string // "": there is nothing to remove
)

// PlainProgram is the path of an executable with the TestMain of the running test, without the race
// detector: most of the processes that a test starts live for milliseconds, and with the detector each
// would first take a fifth of a second of a processor. It is the test binary itself if that has no race
// detector. Otherwise it is built once for all tests of the process. TestMain has to call ExitPlain or
// RemovePlain at its end. PlainProgram panics if go cannot build it.
func PlainProgram() string {
	mu.Lock()
	defer mu.Unlock()
	if path != "" {
		return path
	}
	made, err := program()
	if err != nil {
		panic(err)
	}
	path = made
	return path
}

// ExitPlain removes what PlainProgram has built, and ends the process. It is for goleak.Cleanup.
func ExitPlain(code int) {
	RemovePlain()
	os.Exit(code)
}

// RemovePlain removes what PlainProgram has built.
func RemovePlain() {
	mu.Lock()
	defer mu.Unlock()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	path, dir = "", ""
}

func program() (string, error) {
	self, err := os.Executable()
	if err != nil || !raced {
		return self, err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("the test binary does not tell how it was built")
	}
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w"}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			args = append(args, "-tags="+s.Value)
		}
	}
	dir, err = os.MkdirTemp("", "bt")
	if err != nil {
		return "", err
	}

	made := filepath.Join(dir, filepath.Base(self))
	build := exec.Command("go", append(args, "-o", made)...) // go test runs a test in the folder of its package
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -c: %w: %s", err, out)
	}

	return made, nil
}
