// Command kubeapi runs a Kubernetes API server with an etcd inside, for tests of manifests.
//
// Usage: kubeapi DATA_DIR ETCD_CLIENT_URL ETCD_PEER_URL [flags of kube-apiserver]
package main

import (
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: kubeapi DATA_DIR ETCD_CLIENT_URL ETCD_PEER_URL [flags]"))
	}
	startEtcd(os.Args[1], mustParse(os.Args[2]), mustParse(os.Args[3]))
	flags := append([]string{"--etcd-servers=" + os.Args[2]}, os.Args[4:]...)
	server := app.NewAPIServerCommand()
	server.SetArgs(flags)
	os.Args = append(os.Args[:1], flags...)
	os.Exit(cli.Run(server))
}

func startEtcd(directory string, client, peer url.URL) {
	config := embed.NewConfig()
	config.Dir = directory
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		fail(err)
	}
	<-etcd.Server.ReadyNotify()
}

func mustParse(text string) url.URL {
	parsed, err := url.Parse(text)
	if err != nil {
		fail(err)
	}
	return *parsed
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
