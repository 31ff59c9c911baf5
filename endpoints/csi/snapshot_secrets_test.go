package csi

import (
	"maps"
	"strings"
	"testing"

	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/structs"
	"berth/structs/storage"
)

// The log has the secrets of a snapshot sealed alone, and they replace the variable of its volume.
func TestCreate_SealsTheSecretsOfASnapshot(t *testing.T) {
	p := Snapshots{newSnapshotGroups(t).Server}
	secrets := structs.Secrets{"k": "swordfish"}
	ask := &storage.CSISnapshot{SourceVolumeID: "v", Secrets: secrets}
	_, err := p.rowOf(p.Store.Read(), "default", ask)
	if err == nil || !strings.Contains(err.Error(), "no root key") ||
		strings.Contains(err.Error(), "swordfish") {
		t.Errorf("without a root key: %v", err)
	}

	keyringtest.Use(t, p.Keys, structs.NewID())
	row, err := p.rowOf(p.Store.Read(), "default", ask)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := keyring.OpenSecrets(p.Keys, "default", "v", row.SealedSecrets)
	if err != nil || !maps.Equal(opened, secrets) || row.SecretsFrom != "" {
		t.Errorf("the row has %v and %q, %v", opened, row.SecretsFrom, err)
	}

	ask.Secrets = nil
	row, err = p.rowOf(p.Store.Read(), "default", ask)
	if err != nil || row.SealedSecrets != nil || row.SecretsFrom != "secrets/v" {
		t.Errorf("without secrets: the row has %v and %q, %v", row.SealedSecrets, row.SecretsFrom, err)
	}
}
