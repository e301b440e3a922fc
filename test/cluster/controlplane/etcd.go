package main

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

type etcd struct {
	*embed.Etcd
	endpoint string
}

// startEtcd serves the store on loopback ports that the kernel chooses. It never calls fsync: a crash of the machine
// may lose data, a crash of the process does not.
func startEtcd(ctx context.Context, dir string) (*etcd, error) {
	any0 := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c := embed.NewConfig()
	c.Dir = dir
	c.LogLevel = "error"
	c.UnsafeNoFsync = true
	c.EnableGRPCGateway = false
	c.QuotaBackendBytes = 4 << 30
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{any0}, []url.URL{any0}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{any0}, []url.URL{any0}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return &etcd{Etcd: e, endpoint: "http://" + e.Clients[0].Addr().String()}, nil
	case err := <-e.Err():
		e.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	case <-ctx.Done():
		e.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", dir, ctx.Err())
	}
}
