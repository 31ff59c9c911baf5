package fencing

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// readSecret reads the value of an option from a file, without the line end after it. Its errors show nothing
// of the content.
func readSecret(path string) (string, error) {
	// An open of a pipe does not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()

	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is no plain file")
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others may read it, its mode is %04o: chmod 600", info.Mode().Perm())
	}

	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", err
	}

	secret := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(text) > maxSecretFile:
		return "", fmt.Errorf("it has more than %d bytes", maxSecretFile)
	case secret == "":
		return "", errors.New("it is empty")
	case !isPrintable(secret):
		return "", errors.New("it has more than one line, or control characters")
	}
	return secret, nil
}
