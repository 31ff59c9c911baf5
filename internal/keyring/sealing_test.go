package keyring_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/structs"
)

func testRing(t *testing.T) *keyring.Ring {
	t.Helper()
	ring := &keyring.Ring{}
	keyringtest.Use(t, ring, "k1")
	return ring
}

func volumeDB(spec structs.CSIVolumeSpec) *structs.CSIVolume {
	return &structs.CSIVolume{Namespace: "default", ID: "db", CSIVolumeSpec: spec}
}

func TestSecrets_OpenForTheirVolumeAlone(t *testing.T) {
	ring := testRing(t)
	secrets := structs.Secrets{"user": "u", "password": "p\u00e4ss, \"=\n"}
	sealed, err := keyring.SealSecrets(ring, "default", "db", secrets)
	require.NoError(t, err)
	opened, err := keyring.OpenSecrets(ring, "default", "db", sealed)
	require.NoError(t, err)
	require.Equal(t, secrets, opened)

	for _, other := range [][2]string{{"default", "other"}, {"other", "db"}} {
		_, err = keyring.OpenSecrets(ring, other[0], other[1], sealed)
		require.Equal(t, structs.KindInternal, structs.KindOf(err))
	}
}

func TestOpen_IsUnavailableWithoutTheKey(t *testing.T) {
	ring := testRing(t)
	sealed, err := keyring.SealSecrets(ring, "default", "db", structs.Secrets{"k": "v"})
	require.NoError(t, err)
	ring.Remove("k1")
	_, err = keyring.OpenSecrets(ring, "default", "db", sealed)
	require.Equal(t, structs.KindUnavailable, structs.KindOf(err))

	v := volumeDB(structs.CSIVolumeSpec{SealedSecrets: sealed})
	_, err = keyring.OpenVolume(ring, v)
	require.Error(t, err)
	_, err = keyring.SealSecrets(ring, "default", "db", structs.Secrets{"k": "v"})
	require.Equal(t, structs.KindPrecondition, structs.KindOf(err))
}

func TestOpenVolume_ChangesNoRow(t *testing.T) {
	ring := testRing(t)
	row := volumeDB(structs.CSIVolumeSpec{Secrets: structs.Secrets{"k": "v"}})
	plain, err := keyring.OpenVolume(ring, row)
	require.NoError(t, err)
	require.Same(t, row, plain)

	require.NoError(t, keyring.SealVolume(ring, row, nil))
	require.Nil(t, row.Secrets)
	opened, err := keyring.OpenVolume(ring, row)
	require.NoError(t, err)
	require.Equal(t, structs.Secrets{"k": "v"}, opened.Secrets)
	require.Nil(t, opened.SealedSecrets)
	require.Nil(t, row.Secrets)

	a := &structs.CSIAttachment{Namespace: "default", VolumeID: "db", SealedSecrets: row.SealedSecrets}
	attached, err := keyring.OpenAttachment(ring, a)
	require.NoError(t, err)
	require.Equal(t, structs.Secrets{"k": "v"}, attached.Secrets)
	require.Nil(t, a.Secrets)
}

func TestSealVolume_KeepsTheSealedFormOfEqualSecrets(t *testing.T) {
	ring := testRing(t)
	old := volumeDB(structs.CSIVolumeSpec{Secrets: structs.Secrets{"k": "v"}})
	require.NoError(t, keyring.SealVolume(ring, old, nil))
	same := volumeDB(structs.CSIVolumeSpec{Secrets: structs.Secrets{"k": "v"}})
	require.NoError(t, keyring.SealVolume(ring, same, old))
	require.Same(t, old.SealedSecrets, same.SealedSecrets)

	other := volumeDB(structs.CSIVolumeSpec{Secrets: structs.Secrets{"k": "w"}})
	require.NoError(t, keyring.SealVolume(ring, other, old))
	require.NotEqual(t, old.SealedSecrets, other.SealedSecrets)

	kept := &structs.CSIVolume{Namespace: "default", ID: "db"} // a row without secrets keeps the stored ones later
	require.NoError(t, keyring.SealVolume(ring, kept, old))
	require.Nil(t, kept.SealedSecrets)
}
