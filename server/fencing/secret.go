package fencing

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs/validate/field"
)

// secretReads has a place for each read in flight. A file system that hangs, for example of a network, keeps
// its reads: further ones then fail at once.
var secretReads = make(chan struct{}, 8)

// readWithin returns what read returns, or an error after a time. The read then goes on in the background.
func readWithin(timeout time.Duration, read func() (string, error)) (string, error) {
	select {
	case secretReads <- struct{}{}:
	default:
		return "", errors.New("earlier reads of secret files have not ended: their file system hangs")
	}

	type result struct {
		secret string
		err    error
	}

	// The buffer lets a late read end without a reader.
	done := make(chan result, 1)
	go func() {
		defer func() { <-secretReads }()
		secret, err := read()
		done <- result{secret, err}
	}()

	select {
	case r := <-done:
		return r.secret, r.err
	case <-time.After(timeout):
		return "", fmt.Errorf("it was not read within %s: its file system hangs; keep it on a local disk",
			timeout)
	}
}

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

// urlWithPassword is the begin of a URL with a user and a password.
var urlWithPassword = field.Pattern(`^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@:]*:([^/?#@]+)@`)

// passwordInURL returns the password in a URL as it stands there, "" for none.
func passwordInURL(value string) string {
	m := urlWithPassword().FindStringSubmatch(value)
	if m == nil {
		return ""
	}
	return m[1]
}

// partsOf returns a secret and the parts of it that an agent may print alone: the password of a URL, as it
// stands there and without its escapes.
func partsOf(secret string) []string {
	parts := []string{secret}
	if password := passwordInURL(secret); password != "" {
		parts = append(parts, password)
		plain, err := url.PathUnescape(password)
		if err == nil {
			parts = append(parts, plain)
		}
	}
	return parts
}
