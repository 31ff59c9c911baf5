// Package volumesecrets finds the secrets with which the plugin of a volume is called: the secrets of its
// row, or the items of a variable that the volume, or else the settings of its plugin, name. A variable is
// read for each call, so a write of the variable rotates the secrets. It is in the namespace of the volume,
// below nomad/volumes/NAMESPACE: nobody gets the secrets of another namespace by the name of a volume.
package volumesecrets

import (
	"encoding/json"

	"berth/internal/keyring"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/validate"
)

// Path returns the path of the variable with the secrets of a volume, "" if the volume has secrets of its
// own, or none. The secrets of a request to delete the volume are its own ones.
func Path(tx state.Reader, v *structs.CSIVolume) string {
	switch {
	case len(v.Secrets) > 0 || v.SealedSecrets != nil:
		return ""
	case v.SecretsFrom != "":
		return v.SecretsFrom
	}
	pattern := csi.PluginConfig(tx, v.PluginID).SecretsFrom
	return validate.ExpandSecretsFrom(pattern, v.Namespace, v.ID)
}

// Variable returns the variable with the secrets of a volume, nil for a volume that needs none. The error is
// a precondition: it names the path and the remedy.
func Variable(tx state.Reader, v *structs.CSIVolume) (*access.Variable, error) {
	path := Path(tx, v)
	if path == "" {
		return nil, nil
	}
	err := validate.SecretsPath(v.Namespace, path)
	if err != nil {
		return nil, structs.Preconditionf("volume %q: %w; name another path in the volume: secrets_from", v.ID, err)
	}
	row := state.Variable(tx, v.Namespace, path)
	if row == nil || row.Sealed == nil {
		return nil, structs.Preconditionf("volume %q takes its secrets from the variable %q of namespace %q, "+
			"which %s; to give it items: %s NAME=@FILE", v.ID, path, v.Namespace, missing(row),
			structs.CommandLine(v.Namespace, "var put", path))
	}
	return row, nil
}

// Check returns an error unless the variable with the secrets of a requested volume is there. The request may
// leave the secrets of the present row, nil for none, as they are. Errors are as in Variable.
func Check(tx state.Reader, v, old *structs.CSIVolume) error {
	next := *v
	if old != nil {
		csi.KeepSecrets(&next, old)
	}
	_, err := Variable(tx, &next)
	return err
}

// missing tells why a variable has no items.
func missing(row *access.Variable) string {
	if row == nil {
		return "does not exist"
	}
	return "has no items"
}

// Open returns a volume with its secrets in Secrets: the row itself if they are there already. The error is a
// precondition if an operator has to write the variable, and unavailable if this server has not opened a root
// key.
func Open(tx state.Reader, keys *keyring.Ring, v *structs.CSIVolume) (*structs.CSIVolume, error) {
	if v == nil {
		return nil, nil
	}
	row, err := Variable(tx, v)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return keyring.OpenVolume(keys, v)
	}
	c := *v
	c.Secrets, err = openItems(keys, row)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// OpenForCall is Open for a call of the plugin, which is made again once the cause of an error is gone: also
// the errors that an operator has to mend are unavailable.
func OpenForCall(tx state.Reader, keys *keyring.Ring, v *structs.CSIVolume) (*structs.CSIVolume, error) {
	v, err := Open(tx, keys, v)
	if structs.IsKind(err, structs.KindPrecondition) {
		return nil, structs.Unavailablef("%w", err)
	}
	return v, err
}

// openItems decrypts the items of a variable, which the plugin gets as secrets.
func openItems(keys *keyring.Ring, row *access.Variable) (structs.Secrets, error) {
	b, err := keys.Open(access.VariablePlace(row.Namespace, row.Path), row.Sealed)
	if structs.IsKind(err, structs.KindPrecondition) {
		return nil, structs.Unavailablef("%w", err)
	}
	if err != nil {
		return nil, err
	}
	var items structs.Secrets
	if json.Unmarshal(b, &items) != nil { // whose error may have a value
		return nil, structs.Internalf("the items of the variable %q are not valid", row.Path)
	}
	err = validate.VolumeSecrets(items)
	if err != nil {
		return nil, structs.Preconditionf("the variable %q of namespace %q cannot have the secrets of a volume: %w",
			row.Path, row.Namespace, err)
	}
	return items, nil
}
