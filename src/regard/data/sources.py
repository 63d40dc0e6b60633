"""Where every file of every data set comes from: its address, size, checksum and licence."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Source:
    """One file: its name is its path below the folder that `REGARD_DATA` names, and below the cache."""

    name: str
    url: str | None  # None: no address publishes these very bytes
    sha256: str
    num_bytes: int
    licence: str
    mirrors: tuple[str, ...] = ()  # further addresses of the same bytes
    others: tuple[tuple[str, int], ...] = ()  # sha256 and size of files with the same content, packed otherwise


LICENCES = {
    "multi30k": "no licence file; the publishers provide it for non-commercial research and education",
    "europarl": "© European Union; source: European Parliament; reuse with the source acknowledged",
    "wmt_newstest": "free for research; for other uses ask the owners of the texts",
    "tatoeba": "CC BY 2.0 FR; attribution: tatoeba.org and www.manythings.org/anki",
    "mnist": "CC BY-SA 3.0, as Keras documents it; © Yann LeCun and Corinna Cortes",
    "svhn": "for non-commercial use only",
    "cifar10": "none stated; the publishers ask that Krizhevsky (2009) be cited",
    "flickr8k": "no open licence; handed out for non-commercial research and education",
    "efficientnet_lite0": "Apache-2.0",
}

_MULTI30K = "multi30k/dataset", "a3d2e0d26b56f3846f66a952536ffed4e401d05a", "data/task1/raw"
ADDRESSES = {  # in the order in which they are tried
    "multi30k": (
        "https://raw.githubusercontent.com/{}/{}/{}/".format(*_MULTI30K),
        "https://github.com/{}/raw/{}/{}/".format(*_MULTI30K),
    ),
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "cifar10/cifar-10-binary.tar.gz": ("https://www.cs.toronto.edu/~kriz/",),  # the only file of its folder
}

# sha256, bytes, name: Multi30k task 1, a subset of Europarl, the news tests, Tatoeba (fra 2020-08-23, deu 2018-05-13),
# MNIST (published, and packed anew), CIFAR-10 (published, and as sheets), Flickr8k (reduced), EfficientNet-Lite0,
# SVHN (64 × 64 crops)
_TABLE = """
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8    22890 multi30k/test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9    21077 multi30k/test_2016_flickr.en.gz
6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90    22310 multi30k/test_2016_flickr.fr.gz
a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee    21471 multi30k/test_2017_flickr.de.gz
76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074    19138 multi30k/test_2017_flickr.en.gz
3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496    20434 multi30k/test_2017_flickr.fr.gz
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6   637044 multi30k/train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f   568929 multi30k/train.en.gz
622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c   604242 multi30k/train.fr.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a    24681 multi30k/val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28    21650 multi30k/val.en.gz
ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9    23001 multi30k/val.fr.gz
869515b0dade41e91e059417c0011547fcdb76fef7950697d94a25f792487231    96644 europarl/dev.de.gz
750a2efc156716a3f8ad13b533783bb1102782659aba6a09c93f32d73acfdb0e    86221 europarl/dev.en.gz
dda06f562f9987ac6b33f12a97835f8c38af2df95120815ad36dab2e9be8f57d    93718 europarl/dev.fr.gz
568d13f8daea7627d9ff23e7e527fe42c461ad1ab7c2cdc921479a4afd44b9ba   146558 europarl/test.de.gz
76b74fc87fa10ca23407bdd408f3dd73a0babb4d400d70c7c938ee1c1d3db086   127659 europarl/test.en.gz
22197aa792bc47375deb9c92f9da986845249489ca58ce1cb57055060f94108c   139995 europarl/test.fr.gz
3015506d1c9033c1899562d76afc2dc38344376b1e5942cee7d862d61a2c0f4a  8921692 europarl/train.de.xz
c3165344252ceb138cf04a7e6028e046afdc272dfbaa02b7ae8e48ccb2e5523f  8006964 europarl/train.en.xz
968d404f0fb47718f7fb8d007fda6f094ea77872f223316f61e0fa27e5f596fd  8459640 europarl/train.fr.xz
b2b2f73d616f6a928d06cb97b8b440d6892c4a7b06115ad912d4f511dee09cab   115097 wmt_newstest/newstest2008.de.gz
cf9524aa6e2d483f2aef1406f00b727ae450e182a6489b5da85d707131a54569   101086 wmt_newstest/newstest2008.en.gz
4564bf67f46f6f4169e5bd7dac689ca8787592d72d1b2703407439a886575979   109743 wmt_newstest/newstest2008.fr.gz
0a1b011086e146c20235deb13a57694f21096db9335f1acf54aab7f84ae90de5   147310 wmt_newstest/newstest2009.de.gz
9c0b5b4d516a7ba55cfae5427f03bd2d09aa99c8409df8d58183d81d4795e7fd   131592 wmt_newstest/newstest2009.en.gz
ecbea7c365a493faecf82d1193602cf6cc3e5b5d8b42d9048a45ff9c7a635fc3   144351 wmt_newstest/newstest2009.fr.gz
d6672f09e4b3e5302599a8a3cae0ad2aafd9c5fc7bfd4147f6cfb0ddaa78f99c   145690 wmt_newstest/newstest2010.de.gz
e64af335b425bd79b898d2e54c094d1cbb9d63d4a8d0d83936c1e7a44c1316be   125459 wmt_newstest/newstest2010.en.gz
ae069ad242c1db8ccfb61ed359c550766c6e3eb3f9d0b27fcc14a985db6e1dfa   138381 wmt_newstest/newstest2010.fr.gz
b417018f20a0a147c31df316aa510dc812a415066c5cf75e40dc7b63f39c454e   174247 wmt_newstest/newstest2011.de.gz
942f33c9f9c22547475aeae61d86966766b15d12607dd25bf1b7e6bc1170a2ae   151008 wmt_newstest/newstest2011.en.gz
13ccc00977f73d47c4c59f16750e19c103f2ddac40a72ae8c1341e038bf31add   167266 wmt_newstest/newstest2011.fr.gz
9e76f4766734c659e6d1816773b5b4e176126fe275d44abcad98f7dc521aeee6   170915 wmt_newstest/newstest2012.de.gz
88a1e924f2e1b60dd1d4a469bf29dc2531c2fa28581f21e999f1323325cafefc   144801 wmt_newstest/newstest2012.en.gz
041a9125a6acd0de2904d2737df28adbc6a143797658ff3a355813055a352a9b   160594 wmt_newstest/newstest2012.fr.gz
f3b87352620b54bc2bb2e314ee11595af4af957389d254303708b701a0893b5d   147953 wmt_newstest/newstest2013.de.gz
162df22a4c495e32b7039463d27085e20ffff94b816f57a96ede3b1d92ddfa3e   129266 wmt_newstest/newstest2013.en.gz
282c1a799005e1809bb742c6a5074125330572d844f283236158b2349a16c9af   144824 wmt_newstest/newstest2013.fr.gz
20b141a4dfe4c78a991f9999174f8f378565ea479ebaef056a68b16d23b74702   156142 wmt_newstest/newstest2014.en-de.de.gz
c9d36aa995abde6b41abebef6411be4f1ecc2f520f04dd6e382a232c34b36ff6   140794 wmt_newstest/newstest2014.en-de.en.gz
639cabed16968950ba756e1306c3d5a25415cd4ec86dfaa13adf4aebf8f1fa54   147123 wmt_newstest/newstest2014.en-fr.en.gz
5da04d63cf9dee55a3a3d23ff82ddd2e206ccff25b4449251ee4e632d823010f   164043 wmt_newstest/newstest2014.en-fr.fr.gz
aa6815002b155d14315ac44d6fdc90a8741e31f57a683febb6e718e0d840b10e  2561576 tatoeba/deu.txt.xz
481a36b37d8621f90f5b5bf8101d43a247ac71b933c3cf8d8da832f19ddd5971  3711932 tatoeba/fra.txt.xz
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  9912422 mnist/train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c    28881 mnist/train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  1648877 mnist/t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6     4542 mnist/t10k-labels-idx1-ubyte.gz
1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be  1616508 mnist/t10k-images-idx3-ubyte.gz
b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b     4517 mnist/t10k-labels-idx1-ubyte.gz
0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971  9719438 mnist/train-images-idx3-ubyte.gz
1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203    28857 mnist/train-labels-idx1-ubyte.gz
c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd 170052171 cifar10/cifar-10-binary.tar.gz
ae46f31fba02155b0196db0079b7cb598d8a095ee07ca46e55f9e40f37666947  4677639 cifar10/data_batch_1.jpg
881437d240d0d18546f7d5c9fec2d03f96e4d07d96a7ca0c90c34be7279869fa  4689036 cifar10/data_batch_2.jpg
fb66756a6b21772fa974ad9a72b5725c0706a40d9bd1860bbb2b6a1005653233  4687920 cifar10/data_batch_3.jpg
9dda3a437d365696c71904aca7e5271e43032878dbdd285fd165c23baac55f8e  4677268 cifar10/data_batch_4.jpg
a75d2212cedb4498ed56f38bf0d462b939d3b27c07acf1cf8ce88945394fce0f  4671376 cifar10/data_batch_5.jpg
993056c478ce109f9c43dc43bd6098afc3eb91a3c22b7f8157bcc6ae86ad76cb  4682596 cifar10/test_batch.jpg
100457827cb30b2869dbdce3761c5279714820de9a8c6fa4d0dcc7cbc3037527    30265 cifar10/labels.npz
66568297576898cbb848150e94448b201e2c396d6f94597fa932528022a1db13   867657 flickr8k/Flickr8k.token.txt.gz
18ba829f47f6df1cb830bf7f0506e2ddf333818925299babbd1bbcaf50fdc504    25801 flickr8k/Flickr_8k.devImages.txt
c0924146c131458ceba45da59670fe9520eadce1e5cafffa16a817672a9b1f17    25775 flickr8k/Flickr_8k.testImages.txt
e330ddd5156a4c2d2e2b67bc587e70e588f2d132bd8a10dc54dcb71e58115d8e   154678 flickr8k/Flickr_8k.trainImages.txt
3113f2691f623857606dd4615930775e015d558efe7fe2c8d85cd3b79be1ca0f  6257520 flickr8k/dev.zip
14cb851a2342ab8574a4523a27622eb40b707684752d00f56041439c0c1f5343  6173084 flickr8k/test.zip
947fbde4d448c5ee2271426e23ad9c512e649e9880c956cdd15a1d7e5b25f7dd 37323640 flickr8k/train.zip
579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db 18826032 efficientnet_lite0/efficientnet-lite0-57934424.pth
90108c9b3f3242dad6fc6dcc4463aea52723fefd7d28b1d30c80abfbd0184674    24363 efficientnet_lite0/imagenet_classes.tsv
68cbdcff7971e0d06a79033d5599b162cc4b70a8adda786ddbb4b58812481ed0   349426 svhn/test.csv.gz
9d30a877a637364d8481a5f589d9351c58ef18555ba38257d8e2a72319d2e807  1819725 svhn/test_00.jpg
82c32dfabeda273a6aa0580a93ad2a6aff0a9e43f057dc0b8a6112ba383fa40f  1807856 svhn/test_01.jpg
3c0d9c95e59c36348b9508db267dfe148419faec1453b684084ee58aaf0c4442  1809183 svhn/test_02.jpg
11fa65934ae45126d085e817210440cd01c6a5f6695179dbb0fa21270f2cfa28   350614 svhn/test_03.jpg
91eebf6878079b2d78faa77d4aef25890c60aee2c256651911d651444323dcf4   871030 svhn/train.csv.gz
18a26d5139f5669b85bb3f8e43f70b1b74f11e941afcb6dbc800ada5a78e6ed1  1977821 svhn/train_00.jpg
09e0cb0e0d54ec9ad18a4405c873fee339c26495cbc801f68f8dc37b3650c7b5  1987051 svhn/train_01.jpg
3e9c2906c24aa13ee1e81002f6da64a76df4b71482078b61a03e08462b7ff9c2  1960507 svhn/train_02.jpg
1869e4365b776cdd6e30d5ba9490121c8134e97bf90ca3e4f8b4194288f0d7e4  1972632 svhn/train_03.jpg
6ef9bbd90b73d873c7444f1e8a46ab58074dee9676388bb1d4ae1bac0bcb9fce  1968055 svhn/train_04.jpg
e388f41d2b72dc452352ffdd9c2c4da5f0d3677430c6d0f532a6e9e4cbead407  1975432 svhn/train_05.jpg
1859309fd989d524ac8fc27c8c7c6f69b843f28682d5e0e405b6c7a4ff60b68a  1967839 svhn/train_06.jpg
d0d4bb3b7f2e8620f5701117abbb94dcb69703c040b9de3b9850e640c5c40316  1972237 svhn/train_07.jpg
80d871897df971051441068a0dd3a7438ce5f756efc02a766a51d7c330908848   310773 svhn/train_08.jpg
"""  # noqa: E501


def _sources(table: str) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for line in table.strip().splitlines():
        sha256, num_bytes, name = line.split()
        if name in sources:  # packed otherwise
            first = sources[name]
            sources[name] = replace(first, others=(*first.others, (sha256, int(num_bytes))))
            continue
        folder, _, file = name.partition("/")
        urls = tuple(address + file for address in ADDRESSES.get(folder, ADDRESSES.get(name, ())))
        sources[name] = Source(name, next(iter(urls), None), sha256, int(num_bytes), LICENCES[folder], urls[1:])
    return sources


SOURCES: dict[str, Source] = _sources(_TABLE)
