// Package storetest brings the records of a node into states that tests need.
package storetest

import (
	"fmt"
	"testing"

	"berth/client/store"
	"berth/internal/files"
)

// Crowd writes records until a full disk takes no other one, also not in the place of a former one.
func Crowd(t testing.TB, db *store.DB) {
	t.Helper()
	put := func(bucket string, n, size int) bool {
		text := string(make([]byte, size))
		err := store.NewTable[string](bucket).Put(db, fmt.Sprintf("%05d", n), &text)
		if err != nil && !files.IsNoSpace(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	n := 0
	for size := 8192; size > 0; size /= 2 {
		for ; put("crowd", n, size) || put(fmt.Sprint("crowd", n), n, size); n++ {
		}
	}
}
