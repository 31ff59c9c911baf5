package operator

import (
	"fmt"
	"io"
	"os"

	"berth/api/transport"
	"berth/cli/command"
	"berth/internal/agefile"
	"berth/internal/keyring"
	"berth/structs"
)

// restoreFlags say how the archive and its secrets are opened.
var restoreFlags = []command.Flag{
	IdentityFlag,
	{
		Name:  "keyring-file",
		Kind:  command.String,
		Value: "file",
		Usage: "The key-encryption key of the archive's cluster, if these servers have another",
	},
	{
		Name:  "escrow",
		Kind:  command.String,
		Value: "file",
		Usage: "In place of -keyring-file: its copy for the holder of -identity",
	},
	{
		Name:  "lose-secrets",
		Usage: "Restore all else although no copy is left of the key that opens the secrets",
	},
}

// restoreKeys reads the key that restoreFlags name.
func restoreKeys(c *command.Call) (keys keyring.RestoreKeys, err error) {
	keys.LoseSecrets = c.Bool("lose-secrets")
	var key *keyring.FileKey
	switch {
	case c.Given("keyring-file") && c.Given("escrow"):
		return keys, structs.Invalidf("-keyring-file and -escrow are both given; expected one of them: " +
			"the second is an encrypted copy of the first")
	case c.Given("keyring-file"):
		key, err = keyring.ReadFile(c.String("keyring-file"))
		if err != nil {
			return keys, structs.Invalidf("-keyring-file %s: %w", c.String("keyring-file"), err)
		}
	case c.Given("escrow"):
		key, err = readEscrow(c.String("escrow"), c.String("identity"))
		if err != nil {
			return keys, err
		}
	default:
		return keys, nil
	}

	if !transport.Private(c.API.Address()) {
		return keys, structs.Invalidf("the key would cross the network to %s in plain form; give an address of "+
			"the form https://host:port, or run the command on the machine of the leader", c.API.Address())
	}

	keys.File = structs.Secret(key.Text())
	return keys, nil
}

// readEscrow reads the copy of a key that writeEscrow has written.
func readEscrow(path, identity string) (*keyring.FileKey, error) {
	identities, err := agefile.Identities(identity)
	if err != nil {
		return nil, fmt.Errorf("-escrow needs -identity, the identity of age that opens it: %w", err)
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, structs.Invalidf("-escrow: %w", err)
	}
	defer command.CloseRead(f)

	plain, _, err := agefile.Open(f, identities)
	if err != nil {
		return nil, fmt.Errorf("-escrow %s: %w", path, err)
	}

	text, err := io.ReadAll(io.LimitReader(plain, keyring.MaxFile+1))
	if err != nil {
		return nil, structs.Invalidf("-escrow %s: %w", path, err)
	}

	key, err := keyring.ParseFileKey(text)
	if err != nil {
		return nil, fmt.Errorf("-escrow %s: %w", path, err)
	}

	return key, nil
}
