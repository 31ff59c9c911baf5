package keyring

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
)

// FileKey is a key-encryption key in a file of one line: fileMark, the ID of the key, and the key in base64,
// with a blank between them.
type FileKey struct {
	id  string
	key [KeySize]byte
}

// fileMark begins a file with a key-encryption key, and has the version of its form.
const fileMark = "berth-key-encryption-key-1"

// MaxFile bounds the file in bytes, far above the size of its one line.
const MaxFile = 1 << 10

// idSize is the size of the fingerprint of a key-encryption key in bytes. The gossip carries it in hex.
const idSize = 8

// Fingerprint returns the ID of a key-encryption key: it tells nothing of the key.
func Fingerprint(kind string, of []byte) string {
	sum := sha256.Sum256(append([]byte("berth "+kind+" "), of...))
	return hex.EncodeToString(sum[:idSize])
}

// NewFileKey returns a new random key.
func NewFileKey() *FileKey {
	k := &FileKey{}
	_, _ = rand.Read(k.key[:]) // it never fails
	k.id = Fingerprint("file", k.key[:])
	return k
}

// ID returns the fingerprint of the key.
func (k *FileKey) ID() string { return k.id }

// Text returns the line of the file.
func (k *FileKey) Text() []byte {
	return fmt.Appendf(nil, "%s %s %s\n", fileMark, k.id, base64.StdEncoding.EncodeToString(k.key[:]))
}

// ParseFileKey reads the line of a file. The error shows nothing of it.
func ParseFileKey(text []byte) (*FileKey, error) {
	if len(text) > MaxFile {
		return nil, structs.Invalidf("it is no key-encryption key: it has more than %d bytes", MaxFile)
	}

	fields := strings.Fields(string(text))
	if len(fields) != 3 || fields[0] != fileMark {
		return nil, structs.Invalidf("it is no key-encryption key: expected one line, of %q, an ID and a key",
			fileMark)
	}

	key, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(key) != KeySize {
		return nil, structs.Invalidf("its key is not %d bytes in base64", KeySize)
	}

	k := &FileKey{key: [KeySize]byte(key)}
	k.id = Fingerprint("file", key)
	if k.id != fields[1] {
		return nil, structs.Invalidf("its key does not have the ID beside it: the file is damaged")
	}

	return k, nil
}

// WriteNew writes the key to a file that must not exist, with mode 0600. The error is conflict if it does.
func (k *FileKey) WriteNew(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return structs.Conflictf("%s exists: a key-encryption key is never overwritten, because it may be the "+
			"only one that opens the secrets of a cluster", path)
	}
	if err != nil {
		return structs.Internalf("writing the key-encryption key: %w", err)
	}

	_, err = f.Write(k.Text())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = files.SyncDurable(filepath.Dir(path))
	}
	if err != nil {
		return structs.Internalf("writing the key-encryption key: %w", errors.Join(err, os.Remove(path)))
	}

	return nil
}

// ErrOpenToOthers says that other users can read a file with a key.
var ErrOpenToOthers = errors.New("other users may read it: chmod 600")

// ReadFile reads the key of a file that its user alone may read. The error shows nothing of the content.
func ReadFile(path string) (*FileKey, error) {
	// An open of a pipe does not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()

	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no plain file")
	case info.Mode().Perm()&0o077 != 0:
		return nil, ErrOpenToOthers
	}

	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}

	return ParseFileKey(text)
}

// Wrap encrypts a root key. Only Unwrap with the same ID decrypts it.
func (k *FileKey) Wrap(rootKeyID string, key []byte) ([]byte, error) {
	ring, err := k.ring()
	if err != nil {
		return nil, err
	}

	sealed, err := ring.Seal(wrapPlace(rootKeyID), key)
	if err != nil {
		return nil, err
	}

	return sealed.Data, nil
}

// Unwrap decrypts the result of Wrap.
func (k *FileKey) Unwrap(rootKeyID string, wrapped []byte) ([]byte, error) {
	ring, err := k.ring()
	if err != nil {
		return nil, err
	}

	key, err := ring.Open(wrapPlace(rootKeyID), &structs.Sealed{KeyID: k.id, Data: wrapped})
	if err != nil {
		return nil, errors.New("its wrapped form is damaged")
	}

	return key, nil
}

// ring returns a ring with this key alone: a root key is encrypted like any secret.
func (k *FileKey) ring() (*Ring, error) {
	r := &Ring{}
	err := r.Add(k.id, k.key[:])
	if err != nil {
		return nil, err
	}
	return r, r.Use(k.id)
}

func wrapPlace(rootKeyID string) string { return "root key " + rootKeyID }
