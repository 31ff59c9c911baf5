package gossip

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
	"berth/structs/cluster"
)

// KeyringFile is the name of the file with the keys of a server, in its data directory. It has a list of keys
// in base64 as JSON, the primary one first. The library writes it again after each change.
const KeyringFile = "serf.keyring"

// MaxKeys is the most keys of a keyring. A rotation needs two. An answer of the library holds some 20.
const MaxKeys = 16

// maxFile bounds the keyring file in bytes, far above MaxKeys keys.
const maxFile = 8 << 10

// keySetting names the setting in errors.
const keySetting = "server: encrypt"

// Encryption says how a server encrypts its gossip.
type Encryption struct {
	Dir string // of the server's files
	// Key is the first key in base64, "" for none. It has no effect if there is a keyring file.
	Key structs.Secret
	// VerifyIncoming rejects messages that are not encrypted, VerifyOutgoing encrypts what this server sends.
	// A server without a key does neither.
	VerifyIncoming, VerifyOutgoing bool
	// RequireTLS says that the other ports of the server require TLS: gossip without a key is a gap then.
	RequireTLS bool
}

// CheckKey returns an invalid error if the setting encrypt is neither "" nor a key.
func CheckKey(setting structs.Secret) error {
	if setting == "" {
		return nil
	}
	_, err := cluster.ParseGossipKey(keySetting, string(setting))
	return err
}

// Apply sets the keyring of a gossip that has not started. The keys of the keyring file count. Without a file
// it is written with the key of the setting, and without a key the gossip is not encrypted.
func (e *Encryption) Apply(sc *serf.Config, logger hclog.Logger) error {
	path := filepath.Join(e.Dir, KeyringFile)
	source := path
	keys, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if e.Key == "" {
			e.tellPlain(logger)
			return nil
		}

		source = "server.encrypt"
		keys, err = writeFirst(path, string(e.Key))
	}
	if err != nil {
		return err
	}

	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return structs.Internalf("the keyring of the gossip: %w", err)
	}

	if e.VerifyIncoming && e.VerifyOutgoing {
		sc.KeyringFile = path // nobody changes keys otherwise, see Create
	}
	sc.MemberlistConfig.Keyring = ring
	sc.MemberlistConfig.GossipVerifyIncoming = e.VerifyIncoming
	sc.MemberlistConfig.GossipVerifyOutgoing = e.VerifyOutgoing
	logger.Info("gossip has keys to encrypt",
		"source", source,
		"keys", len(keys),
		"encrypt_verify_incoming", e.VerifyIncoming,
		"encrypt_verify_outgoing", e.VerifyOutgoing)
	if e.Key != "" && !holds(ring, string(e.Key)) {
		logger.Warn("the key of server.encrypt has no effect: the keyring file wins, and does not have it",
			"file", path)
	}
	return nil
}

// tellPlain logs that the gossip is not encrypted.
func (e *Encryption) tellPlain(logger hclog.Logger) {
	if !e.RequireTLS {
		logger.Info("gossip is not encrypted: neither server.encrypt nor a keyring file has a key")
		return
	}
	logger.Warn("gossip is not encrypted, and TLS is required: whoever reaches its port can pass for a member " +
		"of the cluster; give all servers a key (docs/operations/servers.md)")
}

// holds reports whether a keyring has a valid key.
func holds(ring *memberlist.Keyring, text string) bool {
	for _, key := range ring.GetKeys() {
		if base64.StdEncoding.EncodeToString(key) == text {
			return true
		}
	}
	return false
}

// writeFirst writes the keyring file of a first start.
func writeFirst(path, text string) (keys [][]byte, err error) {
	key, err := cluster.ParseGossipKey(keySetting, text)
	if err != nil {
		return nil, err
	}

	content, err := json.Marshal([]string{text})
	if err == nil {
		err = files.WriteDurable(path, content)
	}
	if err != nil {
		return nil, structs.Internalf("writing the keyring of the gossip: %w", err)
	}
	return [][]byte{key}, nil
}

// readKeys reads a keyring file, the primary key first. A missing file is fs.ErrNotExist. Another error names
// the file and the way out, and shows nothing of its content.
func readKeys(path string) (keys [][]byte, err error) {
	content, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	var texts []string
	if err == nil && json.Unmarshal(content, &texts) != nil {
		err = errors.New("it is no list of keys in JSON")
	}
	if err == nil && (len(texts) < 1 || len(texts) > MaxKeys) {
		err = fmt.Errorf("it has %d keys; expected 1 to %d", len(texts), MaxKeys)
	}

	for i, text := range texts {
		if err != nil {
			break
		}
		var key []byte
		key, err = cluster.ParseGossipKey(fmt.Sprintf("entry %d", i+1), text)
		keys = append(keys, key)
	}

	if err != nil {
		return nil, structs.Preconditionf("the keyring file %s of the gossip: %w. "+
			"Copy this file from another server of the cluster, with mode 0600. "+
			"Without it this server starts with the key of server.encrypt", path, err)
	}
	return keys, nil
}

// PrimaryKey returns the key in base64 with which a server encrypts its gossip, "" if it has none. dir has
// the server's files.
func PrimaryKey(dir string) (structs.Secret, error) {
	keys, err := readKeys(filepath.Join(dir, KeyringFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return structs.Secret(base64.StdEncoding.EncodeToString(keys[0])), nil
}

// readPrivate reads a file that its user alone may read.
func readPrivate(path string) ([]byte, error) {
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
		return nil, fmt.Errorf("others may read it, its mode is %04o: chmod 600", info.Mode().Perm())
	}

	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return content, err
}
