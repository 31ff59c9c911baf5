package structs

import (
	"bytes"
	"reflect"
	"testing"

	"berth/internal/codec"
)

func TestVolumeDetailRedacted_HasNoSecret(t *testing.T) {
	secrets := Secrets{"password": "hunter2"}
	options := &CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}}
	attachment := &CSIAttachment{
		Secrets:        secrets,
		PublishContext: secrets,
		MountOptions:   options,
	}
	detail := &CSIVolumeDetail{
		CSIVolume: CSIVolume{
			ID:              "v",
			CSIVolumeSpec:   CSIVolumeSpec{Secrets: secrets, MountOptions: options},
			CSIVolumeStatus: CSIVolumeStatus{Deletion: &CSIDeletion{Secrets: secrets}},
		},
		Attachments: []*CSIAttachment{attachment},
	}
	redacted, err := codec.Encode(detail.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(redacted, []byte("hunter2")) {
		t.Errorf("the redacted detail has a secret: %q", redacted)
	}
	whole, err := codec.Encode(detail)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(whole, []byte("hunter2")); n != 6 {
		t.Errorf("after the redaction the detail itself has %d secrets, want 6", n)
	}
}

// A new field of type Secrets belongs in Redacted and in the test above.
func TestVolumeDetailRedacted_ListsEverySecretField(t *testing.T) {
	if n := secretFields(reflect.TypeFor[CSIVolumeDetail]()); n != 4 {
		t.Errorf("volume and attachment have %d fields of type Secrets, want the 4 of the redaction list", n)
	}
}

// secretFields counts the fields of type Secrets in a struct and in the structs of its fields.
func secretFields(of reflect.Type) (n int) {
	for i := range of.NumField() {
		field := of.Field(i).Type
		if field == reflect.TypeFor[Secrets]() {
			n++
			continue
		}
		for field.Kind() == reflect.Slice || field.Kind() == reflect.Pointer || field.Kind() == reflect.Map {
			field = field.Elem()
		}
		if field.Kind() == reflect.Struct {
			n += secretFields(field)
		}
	}
	return n
}
