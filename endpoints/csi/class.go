package csi

import (
	"berth/endpoints/query"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// ListClasses lists the volume classes by name, as stubs.
func ListClasses(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *storage.ClassListResponse,
) (err error) {
	var stubs []*storage.ClassStub
	for c := range csi.Classes(tx) {
		stubs = append(stubs, c.Stub())
	}
	name := func(s *storage.ClassStub) string { return s.Name }
	resp.Classes, err = query.PageByName(stubs, name, req, resp)
	return err
}

// GetClass reads a class without its mount flags. The error is not-found.
func GetClass(tx *state.ReadTx, req *storage.ClassGetRequest, resp *storage.ClassGetResponse) error {
	resp.Class = csi.Class(tx, req.Name).Redacted()
	if resp.Class == nil {
		return csi.NoClass(req.Name)
	}
	return nil
}

// ClassSpaces lists the answers of the plugin of a class about its space, by place. The error is not-found.
func ClassSpaces(tx *state.ReadTx, req *storage.SpacesRequest, resp *storage.SpacesResponse) error {
	c := csi.Class(tx, req.Class)
	if c == nil {
		return csi.NoClass(req.Class)
	}
	for row := range csi.ExhaustionsOfClass(tx, c.PluginID, c.Name) {
		resp.Places = append(resp.Places, row)
	}
	return nil
}
