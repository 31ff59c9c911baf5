package keyring_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/keyring"
	"berth/structs"
)

func ringWith(t *testing.T, ids ...string) *keyring.Ring {
	t.Helper()
	ring := &keyring.Ring{}
	for i, id := range ids {
		require.NoError(t, ring.Add(id, bytes.Repeat([]byte{byte(i + 1)}, keyring.KeySize)))
		require.NoError(t, ring.Use(id))
	}
	return ring
}

func TestRing_OpensOnlyAtTheSamePlace(t *testing.T) {
	ring := ringWith(t, "one")
	sealed, err := ring.Seal("volume default/db", []byte("hunter2"))
	require.NoError(t, err)
	require.NotContains(t, string(sealed.Data), "hunter2")

	value, err := ring.Open("volume default/db", sealed)
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(value))

	_, err = ring.Open("volume default/other", sealed)
	require.Equal(t, structs.KindInternal, structs.KindOf(err))
	require.NotContains(t, err.Error(), "hunter2")
}

func TestRing_DetectsAChangedByte(t *testing.T) {
	ring := ringWith(t, "one")
	sealed, err := ring.Seal("x", []byte("value"))
	require.NoError(t, err)
	for i := range sealed.Data {
		changed := &structs.Sealed{KeyID: sealed.KeyID, Data: bytes.Clone(sealed.Data)}
		changed.Data[i] ^= 1
		_, err = ring.Open("x", changed)
		require.Error(t, err, "byte %d", i)
	}
	_, err = ring.Open("x", &structs.Sealed{KeyID: "one", Data: []byte("short")})
	require.Error(t, err)
}

func TestRing_SealsWithTheActiveKeyAndOpensWithAll(t *testing.T) {
	ring := ringWith(t, "one")
	first, err := ring.Seal("x", []byte("a"))
	require.NoError(t, err)
	require.NoError(t, ring.Add("two", bytes.Repeat([]byte{9}, keyring.KeySize)))
	require.NoError(t, ring.Use("two"))
	second, err := ring.Seal("x", []byte("b"))
	require.NoError(t, err)
	require.Equal(t, "one", first.KeyID)
	require.Equal(t, "two", second.KeyID)
	require.Equal(t, []string{"one", "two"}, ring.IDs())

	value, err := ring.Open("x", first)
	require.NoError(t, err)
	require.Equal(t, "a", string(value))

	ring.Remove("one")
	_, err = ring.Open("x", first)
	require.Equal(t, structs.KindPrecondition, structs.KindOf(err))
	require.ErrorContains(t, err, "root key one")
}

func TestRing_SealsNothingWithoutAKey(t *testing.T) {
	ring := &keyring.Ring{}
	_, err := ring.Seal("x", []byte("a"))
	require.Equal(t, structs.KindPrecondition, structs.KindOf(err))
	require.Equal(t, structs.KindNotFound, structs.KindOf(ring.Use("absent")))

	ring = ringWith(t, "one")
	ring.Remove("one")
	require.Empty(t, ring.Active())
	_, err = ring.Seal("x", []byte("a"))
	require.Error(t, err)
}

func TestRing_RejectsAKeyOfAnotherSize(t *testing.T) {
	ring := &keyring.Ring{}
	require.Equal(t, structs.KindInvalid, structs.KindOf(ring.Add("short", make([]byte, 16))))
	require.Empty(t, ring.IDs())
}

func TestSealed_IsNeverShown(t *testing.T) {
	ring := ringWith(t, "one")
	sealed, err := ring.Seal("x", []byte("value"))
	require.NoError(t, err)
	shown, err := sealed.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, "null", string(shown))
	require.Equal(t, structs.Redacted, sealed.String())
}
