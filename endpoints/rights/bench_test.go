package rights_test

import (
	"fmt"
	"testing"
	"time"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/structs/access"
)

// BenchmarkGate_Check asks for a right with a token of three policies, among 10,000 tokens and 1,000
// policies.
func BenchmarkGate_Check(b *testing.B) {
	f := newFixture(b, nil)
	for i := range 1000 {
		f.policy(fmt.Sprintf("p%d", i), fmt.Sprintf("namespace \"team-%d\" {\n  policy = \"read\"\n}\n", i))
	}
	f.policy("own", `namespace "a" { policy = "read" }`)
	for i := range 10_000 {
		f.token(fmt.Sprintf("token-%d", i), access.TypeClient, time.Time{}, "own", "p1", fmt.Sprintf("p%d", i%1000))
	}

	read := rights.Namespace(acl.ReadJob)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		err := f.check(b.Context(), read, fmt.Sprintf("token-%d", i%100))
		if err != nil {
			b.Fatal(err)
		}
	}
}
