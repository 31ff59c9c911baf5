package validate

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

func TestVolume_SecretsFromNamesAVariableOfItsNamespace(t *testing.T) {
	from := func(path string) func(*structs.CSIVolume) {
		return func(v *structs.CSIVolume) { v.SecretsFrom = path }
	}
	for _, path := range []string{
		"nomad/volumes/other/db",
		"nomad/volumes/default",
		"nomad/volumes/defaulter/db",
		"nomad/jobs/db",
		"app/db",
	} {
		rejectVolumes(t, map[string]func(*structs.CSIVolume){
			`volume "db": secrets_from is "` + path + `"; a volume of namespace "default" reads variables below ` +
				`nomad/volumes/default/`: from(path),
		})
	}
	rejectVolumes(t, map[string]func(*structs.CSIVolume){
		`volume "db": the path of the variable is "nomad/volumes/default/"`: from("nomad/volumes/default/"),
		`volume "db": secrets and secrets_from exclude one another`: func(v *structs.CSIVolume) {
			v.SecretsFrom = "nomad/volumes/default/db"
			v.Secrets = structs.Secrets{"k": "s3cret"}
		},
		`ok`: func(v *structs.CSIVolume) {
			v.Namespace = "prod"
			v.SecretsFrom = "nomad/volumes/prod/a/b"
			v.Secrets = structs.Secrets{}
		},
	})
}

func TestPluginConfig_SecretsFromIsAPathOrAPattern(t *testing.T) {
	for pattern, valid := range map[string]bool{
		"":                                true,
		"nomad/volumes/{namespace}/{id}":  true,
		"nomad/volumes/{namespace}/nfs":   true,
		"nomad/volumes/prod/nfs":          true,
		"nomad/volumes/{namespace}":       false,
		"nomad/volumes/{namespace}/{ID}":  false,
		"nomad/volumes//":                 false,
		"nomad/jobs/{namespace}/{id}":     false,
		"x/nomad/volumes/prod/nfs":        false,
		"nomad/volumes/{namespace}/{id} ": false,
	} {
		err := PluginConfig(&storage.PluginSettingsRequest{ID: "p", SecretsFrom: pattern})
		if valid != (err == nil) {
			t.Errorf("%q: %v", pattern, err)
		}
		if err != nil && !strings.Contains(err.Error(), `plugin "p": secrets_from`) {
			t.Errorf("%q: %v does not name the field", pattern, err)
		}
	}
	path := ExpandSecretsFrom("nomad/volumes/{namespace}/{id}", "prod", "db")
	if path != "nomad/volumes/prod/db" {
		t.Errorf("the path is %q", path)
	}
}
