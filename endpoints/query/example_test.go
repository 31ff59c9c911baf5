package query_test

import (
	"fmt"

	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// A list of nodes, two to a page.
func ExampleList() {
	store := state.New()
	for i, id := range []string{"n1", "n2", "n3"} {
		node := &structs.Node{ID: id, Name: "host-" + id}
		err := store.Write(uint64(i+1), func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node})
		})
		if err != nil {
			panic(err)
		}
	}
	nodes := query.List[structs.Node, structs.NodeListStub]{
		Key:  func(n *structs.Node) []string { return []string{n.ID} },
		Stub: func(n *structs.Node, s *structs.NodeListStub) { *s = structs.NodeListStub{ID: n.ID, Name: n.Name} },
	}
	q := structs.QueryOptions{PerPage: 2, Filter: `Name != ""`}
	for {
		var meta structs.QueryMeta
		rows := state.NodesFrom(store.Read(), "", query.Start(&q))
		page, err := nodes.Page(rows, &q, &meta)
		if err != nil {
			panic(err)
		}
		for _, n := range page {
			fmt.Print(n.Name, " ")
		}
		fmt.Println("more:", meta.NextToken != "")
		if meta.NextToken == "" {
			return
		}
		q.NextToken = meta.NextToken
	}
	// Output:
	// host-n1 host-n2 more: true
	// host-n3 more: false
}
