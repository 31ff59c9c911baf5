// Package agefile reads recipients and identities of age (filippo.io/age), and encrypts and decrypts with
// them. It streams: no file is whole in memory. It is apart: the command line and the backups of servers use
// it.
package agefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"golang.org/x/sys/unix"

	"berth/structs"
)

// maxList bounds a file with recipients or identities in bytes.
const maxList = 256 << 10

// Recipient reads one recipient, such as age1... The error is invalid, and begins with the name of its
// option.
func Recipient(option, text string) (age.Recipient, error) {
	found, err := age.ParseRecipients(strings.NewReader(text))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("it has %d recipients", len(found))
	}
	if err != nil {
		return nil, structs.Invalidf("%s is %q; expected a recipient of age, such as age1...: %w",
			option, structs.Cut(text, structs.MaxQuoted), err)
	}

	return found[0], nil
}

// Recipients reads a file with one recipient a line. The error is invalid, and has the path.
func Recipients(path string) ([]age.Recipient, error) {
	text, err := readList(path)
	if err != nil {
		return nil, err
	}

	found, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil {
		return nil, structs.Invalidf("%s: expected recipients of age, one a line: %w", path, err)
	}

	return found, nil
}

// Identities reads a file of age-keygen. The error is invalid. It has the path, and shows nothing of the
// file.
func Identities(path string) ([]age.Identity, error) {
	text, err := readList(path)
	if err != nil {
		return nil, err
	}

	found, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return nil, structs.Invalidf("%s has no identities of age; expected a file of age-keygen", path)
	}

	return found, nil
}

// readList reads a small file.
func readList(path string) (string, error) {
	// An open of a pipe does not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", structs.Invalidf("%w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err != nil {
		return "", structs.Invalidf("%w", err)
	}

	if len(text) > maxList {
		return "", structs.Invalidf("%s has more than %d bytes", path, maxList)
	}

	return string(text), nil
}

// Encrypt returns a writer that encrypts for some recipients, or that passes all on if there are none. It
// must be closed. The error is invalid.
func Encrypt(w io.Writer, to []age.Recipient) (io.WriteCloser, error) {
	if len(to) == 0 {
		return plain{w}, nil
	}

	out, err := age.Encrypt(w, to...)
	if err != nil {
		return nil, structs.Invalidf("encrypting the archive: %w", err)
	}

	return out, nil
}

// plain is a writer that needs no end.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// mark begins each file of age that has no armor.
const mark = "age-encryption.org/"

// ErrNoIdentity says that a file is encrypted and that no identity was given.
var ErrNoIdentity = structs.Invalidf("it is encrypted with age: " +
	"give the file of an identity that opens it, as -identity FILE")

// Open returns the plain content of r, and whether age has encrypted it. A plain file passes unchanged. A
// read fails if the encrypted content is damaged or cut off. The error of Open is ErrNoIdentity, or invalid.
func Open(r io.Reader, identities []age.Identity) (plain io.Reader, encrypted bool, err error) {
	in := bufio.NewReader(r)
	var sealed io.Reader
	switch {
	case begins(in, mark):
		sealed = in
	case begins(in, armor.Header):
		sealed = armor.NewReader(in)
	default:
		return in, false, nil
	}

	if len(identities) == 0 {
		return nil, true, ErrNoIdentity
	}

	plain, err = age.Decrypt(sealed, identities...)
	var other *age.NoIdentityMatchError
	switch {
	case errors.As(err, &other):
		return nil, true, structs.Invalidf("it is encrypted with age for other recipients: none of the " +
			"identities given opens it")
	case err != nil:
		return nil, true, structs.Invalidf("it is encrypted with age, and damaged: %w", err)
	}

	return plain, true, nil
}

// begins reports whether the next bytes are a text. It reads none of them.
func begins(in *bufio.Reader, text string) bool {
	head, _ := in.Peek(len(text)) // a file may be shorter
	return string(head) == text
}
