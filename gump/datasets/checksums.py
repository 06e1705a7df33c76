"""What is known about the raw files: a fact table."""

from __future__ import annotations

SHA256: dict[str, str] = {
    "CiteSeer/raw/ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "CiteSeer/raw/ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "CiteSeer/raw/ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "CiteSeer/raw/ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "CiteSeer/raw/ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "CiteSeer/raw/ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "CiteSeer/raw/ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "CiteSeer/raw/ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "Cora/raw/ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "Cora/raw/ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "Cora/raw/ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "Cora/raw/ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "Cora/raw/ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "Cora/raw/ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "Cora/raw/ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "Cora/raw/ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ENZYMES/raw/ENZYMES_A.txt": "5553c84f8f562f3e199dfd27192174f485e85c44c1357661098668937a739cbf",
    "ENZYMES/raw/ENZYMES_graph_indicator.txt": "95ba0fa47eba6f02e6b754a215dc66d5b49de3f45f57a128514301a8d7ed5f46",
    "ENZYMES/raw/ENZYMES_graph_labels.txt": "04743e08967e61e65cdacbb90f8df6ee53742b3d2e7b84675b85ebac70506856",
    "ENZYMES/raw/ENZYMES_node_attributes.txt": "305a8fc3b12f79fb844ef3374d6a3c8ceeb4887dd4f86bbfe37932c4c5434e7b",
    "ENZYMES/raw/ENZYMES_node_labels.txt": "8263eb9b64efa231a5886343483ccfc0342f2407014763a8f738fd51c32ce770",
    "MUTAG/raw/MUTAG_A.txt": "d9656ca7493f3445d737c711710bb36fd432dddd1c0ea32e1d4713c86ebd28e2",
    "MUTAG/raw/MUTAG_edge_labels.txt": "4669ce755075ff86c3240709345745886400908fa637a49310459b9c267b3e56",
    "MUTAG/raw/MUTAG_graph_indicator.txt": "7d520a4d6c7961c0cdeabe076d8fe27e795b6d373485c9a2b744987e560a2056",
    "MUTAG/raw/MUTAG_graph_labels.txt": "a1518ea39ba3426bd42f57396b9c4baffe68e9adc718caeeab0119c6591a5f2c",
    "MUTAG/raw/MUTAG_node_labels.txt": "678f429965490e84dd27713017538c995fc05d1621beac910848b600015ee863",
    "NCI1/raw/NCI1_A.txt": "2c028eda59a5fe96e2265a63d9ac236901bd9a7dc658498be13cd704a703076d",
    "NCI1/raw/NCI1_graph_indicator.txt": "ffe5acfa754b057d5ce0dc725c5aadb631628161886cc040d38c719635257dc5",
    "NCI1/raw/NCI1_graph_labels.txt": "fae44681e70113f496256ae87eaac33b7836e3a97fe8e023933b84fde6a5c8a2",
    "NCI1/raw/NCI1_node_labels.txt": "dc0a22b6cbff0c939de00373e823977ba32b358f560e4288d7602f7b51407ee2",
    "NCI109/raw/NCI109_A.txt": "9c0ae8c1e631f771663de1e095eb36604f4feeb512e46b90b0409f05f876bab6",
    "NCI109/raw/NCI109_graph_indicator.txt": "f86bb0249bf985be397f46c493879022cb068b1d4331215151442de1738c9163",
    "NCI109/raw/NCI109_graph_labels.txt": "8ab9932d5347b935e3aaa7be2f787cc78860fa1af9df836dd3f03cde6939b640",
    "NCI109/raw/NCI109_node_labels.txt": "d2ceda711b4ea4218909e5527325374d7e50c698b0d8a22567390a5526dbd6bc",
    "PROTEINS/raw/PROTEINS_A.txt": "4c4b33e272fc95cac6d27ed6d5d12b9a852c8610e91fff59f8f0dbdd5a20df67",
    "PROTEINS/raw/PROTEINS_graph_indicator.txt": "8d4ff1e852a5c28561e9bffb44cf9490bc552b13a3b6156dd12dc7f44e9afc4a",
    "PROTEINS/raw/PROTEINS_graph_labels.txt": "c0ef9810c440775252872318d0c8adc385588e14bc4c47a2c34aa96ee3c7cdcd",
    "PROTEINS/raw/PROTEINS_node_attributes.txt": "54eef829abb37e458a5fbf3a3c581e48e5810e220463c2cd951856b9ceb08f07",
    "PROTEINS/raw/PROTEINS_node_labels.txt": "f758e8ad3d6e3c026b50833d75f6f90735b94eb3345e4243707f495ca8afea8d",
    "PubMed/raw/ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "PubMed/raw/ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "PubMed/raw/ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "PubMed/raw/ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "PubMed/raw/ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "PubMed/raw/ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "PubMed/raw/ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "PubMed/raw/ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "ogbg_molhiv/raw/edge.csv.gz": "0d13b9c8f1371fb1431e04cccd8e4b84608128cbd9ccddb04f1f509bd5041890",
    "ogbg_molhiv/raw/graph-label.csv.gz": "e53eecdd3e485d7052607b0ce5bd83800688943eb4ae5d7f86317ada4690a00e",
    "ogbg_molhiv/raw/num-edge-list.csv.gz": "da49606c9e0043bffa4b88d726f0944427a15a32741575021cd0a03c5a0a74a5",
    "ogbg_molhiv/raw/num-node-list.csv.gz": "e49e3ca57bce991f2e334f6a93afcd8082d2db51be55273cd1d0570856cd1154",
    "ogbg_molhiv/split/scaffold/test.csv.gz": "111b66eae1ab5006f12787c119bc48176a4eea987a014fa134cd7d3e3dca35ce",
    "ogbg_molhiv/split/scaffold/train.csv.gz": "29ea24c280086d7c3fc1011cd1f75c481c5e3beb14b8b8891e208574d14e34b8",
    "ogbg_molhiv/split/scaffold/valid.csv.gz": "11f0db3641f325f72a002852b27ca32c860bcb5e529cd4bb1b699bb12322f3f0",
    "peptides-functional/raw/peptide_multi_class_dataset.csv.gz": "956e7e3fccdbe07a1befc88087a8acdc6d751e6fd6ba067d9793d223bb1d3862",
    "peptides-functional/split/stratified-random/test.csv.gz": "cc84cb586d63eab0045219876fb164de60b2c5b49e438e8c407a02f86ebb0593",
    "peptides-functional/split/stratified-random/train.csv.gz": "167161167643001c4efe5086a93fb04b0701727ff8a855d0872491965d9e5752",
    "peptides-functional/split/stratified-random/val.csv.gz": "4b3f44050c6c02b5923bc5354f40869dfcec7f10cc849bd2d038441ff6785dff",
}
"""The SHA-256 of each raw file, of what is inside if it ends in ``.gz``. PubMed's are the ones that several projects publish, whose sums of
Cora and CiteSeer are those of the files that were read for this table."""

REGENERATED: dict[str, str] = {
    "ogbg_molhiv/raw/edge-feat.csv.gz": "0e194caa2dca002ff0a676fa705d0e206071763b11d8dbc79ef233afd7985db8",
    "ogbg_molhiv/raw/node-feat.csv.gz": "7753424424baae22c41ec9d3e460c55be3ff80daa5515a894767754d329e6b4e",
}
"""The same for features of ogbg-molhiv that were computed again from the SMILES with RDKit 2022.09.5, which are not OGB's to the byte."""

MD5: dict[str, str] = {
    "peptides-structural/raw/peptide_structure_normalized_dataset.csv.gz": "c240c1c15466b5c907c63e180fa8aa89",
}
"""The MD5 of raw files, as they are, of which nothing better is known; published with the benchmark's own loaders."""
