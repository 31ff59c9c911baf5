package validate

import (
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// volumeVariables is the part of the paths of variables that belongs to volumes.
const volumeVariables = "nomad/volumes/"

// SecretsPath checks the path of the variable with the secrets of a volume. The volumes of a namespace have
// theirs below nomad/volumes/NAMESPACE. The error is invalid.
func SecretsPath(namespace, path string) error {
	below := volumeVariables + namespace + "/"
	if !strings.HasPrefix(path, below) {
		return structs.Invalidf("secrets_from is %q; a volume of namespace %q reads variables below %s",
			structs.Cut(path, structs.MaxQuoted), namespace, below)
	}
	return VariablePath(path)
}

// checkSecretsFrom checks the variable from which a volume reads its secrets, in place of own ones.
func checkSecretsFrom(f field.Errors, v *structs.CSIVolume) {
	if v.SecretsFrom == "" {
		return
	}
	f.Require(len(v.Secrets) == 0, "secrets and secrets_from exclude one another")
	err := SecretsPath(structs.NamespaceOr(v.Namespace), v.SecretsFrom)
	f.Require(err == nil, "%v", err)
}

// ExpandSecretsFrom returns the path for a volume, with its namespace and ID in the places for them.
func ExpandSecretsFrom(pattern, namespace, id string) string {
	return strings.NewReplacer("{namespace}", namespace, "{id}", id).Replace(pattern)
}

// checkSecretsPattern checks the secrets_from of a plugin, by the path that it gives a volume.
func checkSecretsPattern(f field.Errors, pattern string) {
	if pattern == "" {
		return
	}

	// A short namespace and ID stand for any volume's.
	path := ExpandSecretsFrom(pattern, "n", "i")
	rest, found := strings.CutPrefix(path, volumeVariables)
	if !found || !strings.Contains(rest, "/") {
		f.Addf("secrets_from is %q; expected a path below %sNAMESPACE, with {namespace} and {id} for those of a volume", structs.Cut(pattern, structs.MaxQuoted), volumeVariables)
		return
	}

	err := VariablePath(path)
	f.Require(err == nil, "secrets_from: %v", err)
}

// VolumeSecrets checks the items of a variable with the secrets of volumes. Neither a key nor a value appears
// in the error, which is invalid.
func VolumeSecrets(given structs.Secrets) error {
	f := field.New("")
	checkSecrets(f, given)
	return f.Err()
}
