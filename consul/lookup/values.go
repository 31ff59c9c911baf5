package lookup

// The values of answers. Their fields have the names that templates of the dialect use. Readers share values
// and do not change them.

// Service is an instance of a service in Consul.
type Service struct {
	Node                   string
	NodeID                 string
	NodeAddress            string
	NodeTaggedAddresses    map[string]string
	NodeMeta               map[string]string
	ServiceMeta            map[string]string
	Address                string // the node's if the service has none
	ServiceTaggedAddresses map[string]TaggedAddress
	ID                     string
	Name                   string
	Tags                   []string
	Checks                 []Check
	Status                 string // the worst one of Checks
	Port                   int
	Weights                Weights
}

// TaggedAddress is an address of a service for some readers.
type TaggedAddress struct {
	Address string
	Port    int
}

// Weights are the weights of a service in Consul's answers over DNS.
type Weights struct {
	Passing int
	Warning int
}

// Check is the state of a check in Consul.
type Check struct {
	Node        string
	CheckID     string
	Name        string
	Status      string
	Notes       string
	Output      string
	ServiceID   string
	ServiceName string
	ServiceTags []string
	Type        string
}

// ServiceName is a service in a list.
type ServiceName struct {
	Name string
	Tags []string // of all instances
}

// KeyPair is a key in Consul with its value.
type KeyPair struct {
	Path  string // the whole key
	Key   string // below the prefix of the query
	Value string

	CreateIndex uint64
	ModifyIndex uint64
	LockIndex   uint64
	Flags       uint64
	Session     string
	Exists      bool
}

// Instance is an instance of a service of provider berth.
type Instance struct {
	ID         string
	Name       string
	Node       string // the ID of the node
	Address    string
	Port       int
	Datacenter string
	Tags       []string
	JobID      string
	AllocID    string
	Meta       map[string]string
	Status     string // the worst one of its checks, "" without checks
}

// VaultAnswer is a secret of Vault with its lease.
type VaultAnswer struct {
	LeaseID       string
	LeaseDuration int64 // seconds
	Renewable     bool
	Data          map[string]any
	Auth          *VaultAuth `json:",omitempty"` // of an answer that is a token
}

// VaultAuth is a token that Vault has made for the task.
type VaultAuth struct {
	ClientToken   string
	Accessor      string
	Policies      []string
	LeaseDuration int64 // seconds
	Renewable     bool
}
