package keyring_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/keyring"
	"berth/structs"
)

func TestFileKey_WrapsForOneRootKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	made := keyring.NewFileKey()
	require.NoError(t, made.WriteNew(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	k, err := keyring.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, made.ID(), k.ID())
	root := bytes.Repeat([]byte{7}, keyring.KeySize)
	wrapped, err := made.Wrap("one", root)
	require.NoError(t, err)
	require.NotContains(t, string(wrapped), string(root))
	got, err := k.Unwrap("one", wrapped)
	require.NoError(t, err)
	require.Equal(t, root, got)

	_, err = k.Unwrap("two", wrapped)
	require.ErrorContains(t, err, "damaged")
	_, err = keyring.NewFileKey().Unwrap("one", wrapped)
	require.Error(t, err)
}

func TestFileKey_IsNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, keyring.NewFileKey().WriteNew(path))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	err = keyring.NewFileKey().WriteNew(path)
	require.Equal(t, structs.KindConflict, structs.KindOf(err))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestReadFile_RejectsAFileThatOthersRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, keyring.NewFileKey().WriteNew(path))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err := keyring.ReadFile(path)
	require.ErrorIs(t, err, keyring.ErrOpenToOthers)
	_, err = keyring.ReadFile(t.TempDir())
	require.ErrorContains(t, err, "no plain file")
	_, err = keyring.ReadFile(path + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestParseFileKey_DetectsDamage(t *testing.T) {
	line := string(keyring.NewFileKey().Text())
	other := string(keyring.NewFileKey().Text())
	fields := strings.Fields(line)
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "no key-encryption key"},
		"another form":      {"other" + line, "no key-encryption key"},
		"cut off":           {line[:len(line)-10], "not 32 bytes"},
		"the ID of another": {strings.Join(append(strings.Fields(other)[:2], fields[2]), " "), "damaged"},
	} {
		_, err := keyring.ParseFileKey([]byte(c.text))
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), fields[2][:8], name)
	}
}
