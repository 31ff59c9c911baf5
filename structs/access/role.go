package access

import "berth/structs"

// Role is the row of a role: a name for several policies. Key: ID. Names are unique.
type Role struct {
	ID          string
	Name        string
	Description string
	Policies    []*PolicyLink // of which the role has at least one
	structs.Indexes
}

// PolicyLink names a policy of a role.
type PolicyLink struct {
	Name string
}

// Link names a role of a token. In a request one of both fields is enough.
type Link struct {
	ID   string
	Name string
}

// RoleList lists the roles: all for a management token, otherwise the caller's token's.
var RoleList = structs.Read[structs.QueryRequest, RoleListResponse]("ACL.ListRoles")

// RoleListResponse has the roles by ID.
type RoleListResponse struct {
	Roles []*Role
	structs.QueryMeta
}

// RoleGet reads a role by its ID or its name. The error is not-found.
var RoleGet = structs.Read[RoleGetRequest, RoleGetResponse]("ACL.GetRole")

// RoleGetRequest names the role by one of both.
type RoleGetRequest struct {
	ID   string
	Name string
	structs.QueryOptions
}

// RoleGetResponse has the role.
type RoleGetResponse struct {
	Role *Role
	structs.QueryMeta
}

// RolePut creates a role, or replaces the one with the ID. Its policies have to exist.
var RolePut = structs.Write[RolePutRequest, RolePutResponse]("ACL.UpsertRole")

// RolePutRequest has the role as it is to be. The server gives a role without an ID one.
type RolePutRequest struct {
	Role *Role
	structs.WriteOptions
}

// RolePutResponse has the role as it is stored.
type RolePutResponse struct {
	Role *Role
	structs.WriteMeta
}

// RoleDelete deletes a role. Tokens that name it lose what it gave. The error is not-found.
var RoleDelete = structs.Write[RoleDeleteRequest, structs.Empty]("ACL.DeleteRole")

// RoleDeleteRequest names the role.
type RoleDeleteRequest struct {
	ID string
	structs.WriteOptions
}
