package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/certificate"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/internal/keyring"
	"berth/structs"
	"berth/structs/cluster"
)

// operatorRoot has the verbs of berth operator root.
var operatorRoot = command.Command{
	Name:     "root",
	Synopsis: "Manage the keys that encrypt the secrets of the cluster",
	Sub: []command.Command{{
		Name:     "keyring",
		Synopsis: "Make the key-encryption key, and show and rotate the root keys",
		Sub: []command.Command{
			{
				Name:     "init",
				Synopsis: "Make the file of the key-encryption key",
				Help: `
The servers encrypt secrets with root keys, and the key-encryption key opens
these. Copy the file to each server, outside of its data directory, and set
server { keyring { file = "..." } } there. A file is never overwritten.

Without a copy of this key the secrets are lost with the servers, and no
archive has it. So one of -key-saved and -escrow-to is required.`,
				Local: true,
				Flags: append([]command.Flag{
					{Name: "out", Kind: command.String, Value: "file", Usage: "The new file, with mode 0600"},
				}, certificate.KeyCopyFlags...),
				Run: rootInit,
				Examples: "berth operator root keyring init -out keyring -key-saved\n" +
					"berth operator root keyring init -out key -escrow-to age1... -escrow-out k.age",
			},
			{
				Name:     "list",
				Synopsis: "List the root keys, and the servers that cannot open them",
				Renders:  true,
				Run:      rootList,
				Examples: "berth operator root keyring list",
			},
			{
				Name:     "rotate",
				Synopsis: "Encrypt new secrets with a new root key",
				Help: `
With -full the leader also encrypts all other secrets again, while all goes
on. The former keys are in the state rekeying until it has done so, and can
be removed then.`,
				Acts:     true,
				Flags:    []command.Flag{{Name: "full", Usage: "Encrypt all secrets again with the new key"}},
				Run:      rootRotate,
				Examples: "berth operator root keyring rotate -full",
			},
			{
				Name:     "remove",
				Args:     "<key>",
				Synopsis: "Delete a root key that no secret needs",
				Acts:     true,
				Run:      rootRemove,
				Examples: "berth operator root keyring remove a4bc2f4b-35a3-4b4c-8c9e-6f1c2f7f0a11",
			},
		},
	}},
}

// madeKey is the outcome of init.
type madeKey struct {
	ID         string
	File       string
	EscrowFile string `json:",omitempty"`
}

// rootInit calls no agent. It writes the copy before the key: a key without a copy must not come into use.
func rootInit(_ context.Context, c *command.Call) error {
	made := madeKey{File: c.String("out")}
	if made.File == "" {
		return structs.Invalidf("expected -out, the file of the new key, for example /etc/berth/keyring")
	}

	copied, err := certificate.KeyCopyOf(c)
	if err != nil {
		return err
	}

	made.EscrowFile = copied.File

	key := keyring.NewFileKey()
	made.ID = key.ID()
	err = copied.Write(key.Text())
	if err != nil {
		return err
	}

	if err := key.WriteNew(made.File); err != nil {
		return err
	}

	c.Printf("Wrote %s, the key-encryption key %s\n", made.File, key.ID())
	copied.Print(c)
	c.Printf("\nKeep a copy away from the servers, and apart from the archives of the state:\n"+
		"who has both reads all secrets, and without this key nobody does.\n\n"+
		"Copy the file to each server with mode 0600, and set there:\n"+
		"  server {\n    keyring {\n      file = %q\n    }\n  }\n", made.File)
	return c.WriteOutcome(made)
}

// rootList shows which servers cannot open a key: their secrets stay closed.
func rootList(ctx context.Context, c *command.Call) error {
	keys, _, err := operator.RootKeys(ctx, c.API, nil)
	if err != nil {
		return err
	}

	return c.Show(keys, func() error {
		if len(keys) == 0 {
			c.Printf("There is no root key. The leader makes the first one when every server has the same " +
				"key-encryption key:\nberth operator root keyring init\n")
			return nil
		}
		var rows command.Grid
		for _, k := range keys {
			rows.AddRow(k.KeyID, k.State, show.Time(time.Unix(0, k.CreateTime)), k.KEK, opened(k))
		}
		c.Table("Key|State|Created|Key-encryption key|Open at", rows)
		for _, k := range keys {
			for _, server := range slices.Sorted(maps.Keys(k.Closed)) {
				c.Printf("\n%s cannot open %s: %s\n", server, k.KeyID, k.Closed[server])
			}
		}
		return nil
	})
}

// opened describes the servers that have opened a key.
func opened(k *cluster.RootKeyMeta) string {
	if len(k.Closed) == 0 {
		return "all servers"
	}
	return "all but " + show.Plural(len(k.Closed), "server")
}

// rootRotate waits for the new key. With -full the leader encrypts the other secrets again afterwards, which
// rootList shows.
func rootRotate(ctx context.Context, c *command.Call) error {
	var made *cluster.KeyringRotateResponse
	const leader = "the leader, which has its key-encryption key wrap the new root key"
	err := watch.New(c).Await(ctx, leader, watch.SeeServers, func() (err error) {
		made, err = operator.RotateRootKey(ctx, c.API, c.Bool("full"))
		return err
	})
	if err != nil {
		return err
	}

	key := made.Key
	text := fmt.Sprintf("Root key %s is active", key.KeyID)
	if c.Bool("full") {
		text += "; the leader encrypts the other secrets again, see berth operator root keyring list"
	}

	return c.Report(key, "%s", text)
}

// rootRemove removes a root key. The servers reject one that a secret needs.
func rootRemove(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	if err := operator.RemoveRootKey(ctx, c.API, id); err != nil {
		return err
	}
	return c.Report(command.Changed{"KeyID": id}, "Root key %s is removed", id)
}
